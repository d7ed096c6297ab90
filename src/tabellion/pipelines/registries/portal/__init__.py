"""The practice portal: a local web application with the flows of three registries, to develop and test against."""
