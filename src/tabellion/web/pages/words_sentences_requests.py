"""What the API says of requests that it refuses, where people at the pages may meet it; in French."""

from __future__ import annotations

#: The meaning of every code, which is told where there is nothing closer to say.
CODES = {
    "the request names no API key and comes with no session": "la demande n’a ni clé d’API ni session",
    "the API key is unknown, revoked, expired or of another environment": (
        "la clé d’API est inconnue, révoquée, expirée ou d’un autre environnement"
    ),
    "the session has ended or was signed out": "la session est terminée",
    "the request was not sent by a page of this application": (
        "la demande n’a pas été envoyée par une page de cette application"
    ),
    "passwords and links are not taken over plain http from elsewhere": (
        "mots de passe et liens ne sont pas acceptés d’ailleurs en http simple"
    ),
    "the name or the password is wrong": "le nom ou le mot de passe est faux",
    "too many tries to sign in; the next one must wait": "trop d’essais de connexion ; le prochain doit attendre",
    "only people who are signed in have this, keys do not": (
        "réservé aux personnes connectées ; les clés n’y ont pas droit"
    ),
    "this is not the password there is": "ce n’est pas le mot de passe actuel",
    "the password is too easy to guess": "le mot de passe est trop facile à deviner",
    "there is a user of this name already": "il y a déjà un utilisateur de ce nom",
    "nobody else could let people in": "plus personne ne pourrait admettre les autres",
    "the user may not sign in": "cet utilisateur ne peut pas se connecter",
    "the sign-in link was used, has expired, or never was one": (
        "ce lien de connexion a déjà servi, a expiré ou n’en a jamais été un"
    ),
    "the role of the API key or the user is too low": "le rôle de la clé ou de l’utilisateur ne suffit pas",
    "there is nothing of that name here": "il n’y a rien de ce nom ici",
    "this address does not take this method": "cette adresse n’accepte pas cette méthode",
    "the answer exists only in another form than those accepted": (
        "la réponse n’existe que sous une autre forme que celles acceptées"
    ),
    "the request stopped arriving": "la demande a cessé d’arriver",
    "this is no HTTP request that can be understood": "cette demande HTTP est incompréhensible",
    "the headers and the address of the request are larger than allowed": (
        "les en-têtes et l’adresse de la demande sont plus grands que permis"
    ),
    "too many clients are connected": "trop de clients sont connectés",
    "the connection ended before the body did": "la connexion a fini avant le corps de la demande",
    "the body, a file or a field is larger than allowed": (
        "le corps de la demande, un fichier ou un champ est plus grand que permis"
    ),
    "the form has more parts or files than allowed": "le formulaire a plus de parties ou de fichiers que permis",
    "a body of this content type is not read here": "un contenu de ce type n’est pas lu ici",
    "the body is no JSON as RFC 8259 has it, or says a key twice": (
        "le corps de la demande n’est pas du JSON (RFC 8259), ou répète une clé"
    ),
    "lists and objects are nested too deep": "listes et objets sont imbriqués trop profondément",
    "a text has a NUL character, which no database keeps": (
        "un texte a un caractère NUL, qu’aucune base de données ne garde"
    ),
    "the form cannot be taken apart": "le formulaire est incompréhensible",
    "a value does not fit what is expected there": "une valeur n’est pas celle qui est attendue là",
    "a value that is needed is not there": "une valeur nécessaire manque",
    "a field or parameter that does not exist": "un champ ou un paramètre qui n’existe pas",
    "a value that may be given once is given twice": "une valeur unique est donnée deux fois",
    "the cursor is not one of ours, or belongs to another question": (
        "le curseur n’est pas des nôtres, ou appartient à une autre question"
    ),
    "the file is of a kind that is not read": "le fichier est d’une sorte qui n’est pas lue",
    "the file is something else than its name or content type says": (
        "le fichier est autre chose que ne le dit son nom ou son type"
    ),
    "the document type cannot be used: its file has a mistake": (
        "le type de document est inutilisable : son fichier a une erreur"
    ),
    "the URL leads where documents are not fetched from": "l’adresse mène là où aucun document n’est cherché",
    "the URL gave no document": "l’adresse n’a donné aucun document",
    "the Idempotency-Key was used for another request": "l’Idempotency-Key a servi à une autre demande",
    "the first request with this Idempotency-Key is still being worked on": (
        "la première demande avec cette Idempotency-Key est encore en cours"
    ),
    "the same file is there already and its type says to refuse it": (
        "le même fichier est déjà là, et son type dit de le refuser"
    ),
    "the document is being processed": "le document est en cours de traitement",
    "the page cannot be drawn": "la page ne peut pas être dessinée",
    "the document has no such page": "le document n’a pas cette page",
    "somebody else has claimed the review item": "quelqu’un d’autre a pris ce document",
    "the review item is assigned to somebody else": "le document est attribué à quelqu’un d’autre",
    "the review item waits for an operator": "le document attend un opérateur",
    "the review item is finished": "la relecture est terminée",
    "the review item is not finished": "la relecture n’est pas terminée",
    "the review queue is paused": "la file de relecture est en pause",
    "one person holds as many review items as one can": "une personne a autant de documents à relire que possible",
    "the review item must be claimed first, and this claim is not there, or over": (
        "le document doit d’abord être pris, et il ne l’est pas, ou plus"
    ),
    "the request does not say which version of the review item it was made on": (
        "la demande ne dit pas sur quelle version elle a été faite"
    ),
    "the review item was changed meanwhile": "le document a été modifié entre-temps",
    "nobody has looked at fields that the reading is not sure of": "personne n’a vérifié des champs dont la lecture "
    "n’est pas sûre",
    "the document has no type, and so no fields": "le document n’a pas de type, et donc pas de champs",
    "the review item cannot be approved as it is": "le document ne peut pas être approuvé en l’état",
    "the document's file is not kept any more": "le fichier du document n’est plus conservé",
    "the file has no such bytes": "le fichier n’a pas ces octets",
    "one key or person asks more often than it may": "trop de demandes pour une clé ou une personne",
    "too many event streams are open": "trop de flux d’événements sont ouverts",
    "the table of a queue is not as the queue is declared": (
        "la table d’une file n’est pas telle que la file est déclarée"
    ),
    "the database does not answer": "la base de données ne répond pas",
    "the disk is full, or refuses to be written to": "le disque est plein, ou refuse l’écriture",
    "the server is going down": "le serveur s’arrête",
    "something went wrong here that should not": "quelque chose s’est mal passé ici qui n’aurait pas dû",
}

#: What is told instead where more is known.
DETAILS = {
    "there is no such address": "cette adresse n’existe pas",
    "there is no such document": "ce document n’existe pas",
    "there is no such file": "ce fichier n’existe pas",
    "there is no such queue": "cette file n’existe pas",
    "there is no such review item": "ce document à relire n’existe pas",
    "there is no such user": "cet utilisateur n’existe pas",
    "there is no such type": "ce type n’existe pas",
    "there is no such model": "ce modèle n’existe pas",
    "there is no such field": "ce champ n’existe pas",
    "there is no such environment": "cet environnement n’existe pas",
    "there is a user {name} already": "il y a déjà un utilisateur {name}",
    "a user's name is 1 to 64 letters a-z, digits and . _ @ + -, and begins with a letter or a digit": (
        "un nom d’utilisateur a de 1 à 64 lettres a-z, chiffres et . _ @ + -, et commence par une lettre ou un chiffre"
    ),
    "a password has {n} to {nmost} characters": "un mot de passe a de {n} à {nmost} caractères",
    "this password is too easy to guess: use a few words that nobody would expect together": (
        "ce mot de passe est trop facile à deviner : choisissez quelques mots que personne n’attendrait ensemble"
    ),
    "too many tries: again in {n} s": "trop d’essais : réessayez dans {n} s",
    "more than {n} requests a second": "plus de {n} demandes par seconde",
    "the document has no {kind} yet": "le document n’a pas encore de {kind}",
    "the document has {n} page": "le document a {n} page",
    "the document has {n} pages": "le document a {n} pages",
    "the result is not in the lake any more": "le résultat n’est plus dans le lac",
    "the row that this page begins after is gone": "la ligne après laquelle cette page commence a disparu",
    "say which rows: by fingerprint or by keys": "dites quelles lignes : par empreinte ou par clés",
    "this is no key of that table": "ce n’est pas une clé de cette table",
    "If-Match is not a valid version": "If-Match n’est pas une version valide",
    "the time ends before it begins": "la période finit avant de commencer",
    "a value in the {text} does not fit": "une valeur ne convient pas ({text})",
    "a value does not fit": "une valeur ne convient pas",
    "a file may have {n} bytes": "un fichier peut avoir {n} octets",
    "a file may have {n} bytes; it has {ngot}": "un fichier peut avoir {n} octets ; celui-ci en a {ngot}",
    "a body may have {n} bytes": "une demande peut avoir {n} octets",
    "a body may have {n} bytes; it has {ngot}": "une demande peut avoir {n} octets ; celle-ci en a {ngot}",
    "a request may have {n} files": "une demande peut avoir {n} fichiers",
    "the form has no file": "le formulaire n’a pas de fichier",
    "it is declared as {declared}, and it is {found}": "il est annoncé comme {declared}, et c’est {found}",
    "the same file is there already, as document {id}, and its type takes no second one": (
        "le même fichier est déjà là, comme document {id}, et son type n’en admet pas deux"
    ),
    "the same file was deleted while it came in: send it again": (
        "le même fichier a été supprimé pendant l’envoi : envoyez-le de nouveau"
    ),
    "the document type {shown} cannot be used: {text}": "le type de document {shown} est inutilisable : {text}",
    "role_required: {role}; {said}": "rôle requis : {role} ; {said}",
    "you are signed in as {role}": "vous êtes connecté comme {role}",
    "send PDF, PNG, JPEG, WebP, GIF, TIFF or BMP": "envoyez PDF, PNG, JPEG, WebP, GIF, TIFF ou BMP",
    "send the file's bytes": "envoyez le contenu du fichier",
    "send it again": "envoyez-le de nouveau",
    "look at the original": "voyez l’original",
    "save the document as a file of its own": "enregistrez le document comme fichier à part",
    "correct its name and content type, or send the file that was meant": (
        "corrigez son nom et son type, ou envoyez le fichier voulu"
    ),
    "choose of: {text}": "choisissez parmi : {text}",
    "have {file} corrected; `tabellion types check` says every mistake": (
        "faites corriger {file} ; `tabellion types check` dit chaque erreur"
    ),
}

REQUESTS: dict[str, str] = {**CODES, **DETAILS}
