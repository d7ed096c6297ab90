"""The only place that talks to the outside: which addresses may be asked, and how they are asked."""
