"""Words of the sign-in and of one-time links."""

from __future__ import annotations

WORDS = {
    "en": {
        "sign_in.title": "Sign in",
        "sign_in.environment": "Environment",
        "sign_in.name": "Name",
        "sign_in.password": "Password",
        "sign_in.submit": "Sign in",
        "sign_in.both": "Type your name and your password.",
        "sign_in.wait": "Too many tries. You can try again in {n} seconds.",
        "sign_in.wait.one": "Too many tries. You can try again in {n} second.",
        "sign_in.hint": "No password yet, or forgotten? Whoever runs the server makes you a link with",
        "enter.title": "Welcome",
        "enter.wait": "Opening the door …",
        "enter.no_token": "This address is only half of a sign-in link.",
        "enter.hint": "A link is good once, and for 15 minutes. Ask for another one, or make it:",
        "enter.to_sign_in": "Sign in with a password",
    },
    "fr": {
        "sign_in.title": "Connexion",
        "sign_in.environment": "Environnement",
        "sign_in.name": "Nom",
        "sign_in.password": "Mot de passe",
        "sign_in.submit": "Se connecter",
        "sign_in.both": "Saisissez votre nom et votre mot de passe.",
        "sign_in.wait": "Trop d’essais. Vous pourrez réessayer dans {n} secondes.",
        "sign_in.wait.one": "Trop d’essais. Vous pourrez réessayer dans {n} seconde.",
        "sign_in.hint": "Pas encore de mot de passe, ou oublié ? Qui gère le serveur vous fait un lien avec",
        "enter.title": "Bienvenue",
        "enter.wait": "La porte s’ouvre …",
        "enter.no_token": "Cette adresse n’est que la moitié d’un lien de connexion.",
        "enter.hint": "Un lien sert une fois, pendant 15 minutes. Demandez-en un autre, ou faites-le :",
        "enter.to_sign_in": "Se connecter avec un mot de passe",
    },
}
