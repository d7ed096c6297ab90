"""What is said of the work on documents: doubts, failures, models, attempts, review, refused requests; in French."""

from __future__ import annotations

from tabellion.web.pages.words_sentences_requests import REQUESTS

DOUBTS = {
    "a field is less sure than its type demands": "un champ est moins sûr que son type ne le demande",
    "a required field was not found": "un champ obligatoire n’a pas été trouvé",
    "the model says so, and no words on the pages do": "le modèle le dit, aucun mot des pages ne le dit",
    "something is wrong with the values": "quelque chose ne va pas dans les valeurs",
    "the file is cut off or damaged: something may be missing": (
        "le fichier est tronqué ou endommagé : quelque chose peut manquer"
    ),
    "a page could not be read": "une page n’a pas pu être lue",
    "a page is hard to read": "une page est difficile à lire",
    "it is not clear which type of document it is": "le type du document n’est pas certain",
    "a later reading says something else than what was approved": (
        "une lecture plus récente dit autre chose que ce qui a été approuvé"
    ),
    "{field}: a later reading says something else than what was approved": (
        "{field} : une lecture plus récente dit autre chose que ce qui a été approuvé"
    ),
    "nobody doubts it; it was drawn for a look all the same": (
        "personne n’en doute ; il a été tiré au sort pour un coup d’œil"
    ),
    "documents of this type are always looked at": "les documents de ce type sont toujours relus",
    "drawn as one of {n} %": "tiré au sort parmi {n} %",
    "taken for {type}, for which {share}% of the evidence speaks": (
        "pris pour le type {type}, en faveur duquel parlent {share} % des indices"
    ),
    "{field}: the model says so, and no words on the pages do": (
        "{field} : le modèle le dit, aucun mot des pages ne le dit"
    ),
    "{field}: the model says {shown}, and no words on the pages do": (
        "{field} : le modèle dit {shown}, aucun mot des pages ne le dit"
    ),
    "{field}: low confidence, {n} (threshold {nwanted})": "{field} : confiance faible, {n} (seuil {nwanted})",
    "not on the document, a person says": "absent du document, dit une personne",
    "the document is read again": "le document est lu de nouveau",
    "taken over": "repris par quelqu’un d’autre",
}

FAILURES = {
    "the model will never answer this: it is blocked, too long, or not what the model takes": (
        "le modèle n’y répondra jamais : c’est bloqué, trop long, ou pas ce que le modèle accepte"
    ),
    "the model answered, and no answer could be used": "le modèle a répondu, et aucune réponse n’était utilisable",
    "the model, or the way to it, was in trouble each time": (
        "le modèle, ou le chemin qui y mène, a été en panne chaque fois"
    ),
    "the model does not accept the key": "le modèle n’accepte pas la clé",
    "a document type or a model is not as it should be": "un type de document ou un modèle n’est pas comme il devrait",
    "the outputs could not be written": "les résultats n’ont pas pu être écrits",
    "it is the duplicate of a document that failed": "c’est le doublon d’un document qui a échoué",
    "the worker died over it, more than once": "le worker s’y est arrêté plus d’une fois",
    "it took longer than it may": "cela a pris plus de temps que permis",
    "something went wrong that should not": "quelque chose s’est mal passé qui n’aurait pas dû",
    "the last try failed; another one is due": "le dernier essai a échoué ; un autre est prévu",
    "its document type cannot be used for now": "son type de document ne peut pas être utilisé pour l’instant",
    "its document type cannot be used for now: {said}": (
        "son type de document ne peut pas être utilisé pour l’instant : {said}"
    ),
    "outputs cannot be written for now": "les résultats ne peuvent pas être écrits pour l’instant",
    "outputs cannot be written for now: {said}": "les résultats ne peuvent pas être écrits pour l’instant : {said}",
    "document {id}, of which this is a duplicate, failed: {said}": (
        "le document {id}, dont celui-ci est un doublon, a échoué : {said}"
    ),
    "it was read once more, and this is why that failed; its result and outputs are those of the reading before": (
        "il a été lu de nouveau, et voici pourquoi cela a échoué ; ses valeurs et ses résultats sont ceux de la "
        "lecture d’avant"
    ),
    "there is no type {shown}; there are {text}": "il n’y a pas de type {shown} ; il y a {text}",
    "there is no model {shown}; there are {models}": "il n’y a pas de modèle {shown} ; il y a {models}",
    "there is no model {shown}: the settings make none": (
        "il n’y a pas de modèle {shown} : les réglages n’en font aucun"
    ),
    "there is no document type {shown}; there are {text}": ("il n’y a pas de type de document {shown} ; il y a {text}"),
    "it is a {kind} file that is also {said}": "c’est un fichier {kind} qui est aussi {said}",
}

#: What models and the way to them say of themselves; what providers say stays as they say it.
MODELS = {
    "{model} was of no help ({error}): {said}": "{model} n’a été d’aucune aide ({error}) : {said}",
    "the answer repeats itself without end": "la réponse se répète sans fin",
    "nothing was answered within {n} tokens": "rien n’a été répondu en {n} jetons",
    "the answer was cut off at {n} tokens": "la réponse a été coupée à {n} jetons",
    "the answer is empty": "la réponse est vide",
    "the answer is a web page, not JSON": "la réponse est une page web, pas du JSON",
    "the answer stops in the middle of its JSON": "la réponse s’arrête au milieu de son JSON",
    "the answer is not JSON: {text}": "la réponse n’est pas du JSON : {text}",
    "the answer does not fit the schema: {text}": "la réponse ne suit pas le schéma : {text}",
    "the answer is larger than {n} bytes": "la réponse dépasse {n} octets",
    "{model} answered with a web page instead of JSON: is the base URL right, is a proxy in the way?": (
        "{model} a répondu par une page web au lieu de JSON : l’adresse de base est-elle juste, un mandataire "
        "s’interpose-t-il ?"
    ),
    "{model} answered with something that is not JSON": "{model} a répondu par autre chose que du JSON",
    "{model} answered with JSON that is not an object": "{model} a répondu par du JSON qui n’est pas un objet",
    "{model} cannot be reached: {text}": "{model} est injoignable : {text}",
    "{model} did not answer in time": "{model} n’a pas répondu à temps",
    "{model}: no complete answer within {n} s": "{model} : pas de réponse complète en {n} s",
    "{model} broke off the connection ({error})": "{model} a rompu la connexion ({error})",
    "{model} will not answer this: its content filter says no": (
        "{model} n’y répondra pas : son filtre de contenu s’y oppose"
    ),
    "{model} will not answer this: blocked as {text}": "{model} n’y répondra pas : bloqué ({text})",
    "{model} stopped without an answer ({text})": "{model} s’est arrêté sans réponse ({text})",
    "{model} said {n}: {said}: {text}": "{model} a dit {n} : {said} : {text}",
    "{model} said {n}: {said}: {text}; retry in {nafter} s": (
        "{model} a dit {n} : {said} : {text} ; nouvel essai dans {nafter} s"
    ),
    "{model} said {n}: {said}; retry in {nafter} s": "{model} a dit {n} : {said} ; nouvel essai dans {nafter} s",
    "{model} said {n}: {said}": "{model} a dit {n} : {said}",
    "bad request": "demande incorrecte",
    "the key is not accepted": "la clé n’est pas acceptée",
    "payment required": "paiement requis",
    "the key may not do this": "la clé ne le permet pas",
    "not found": "introuvable",
    "the server waited too long": "le serveur a attendu trop longtemps",
    "the request is too large": "la demande est trop grande",
    "the request does not fit": "la demande ne convient pas",
    "too many requests": "trop de demandes",
    "internal error": "erreur interne",
    "bad gateway": "mauvaise passerelle",
    "unavailable": "indisponible",
    "the local model cannot read this ({code}): {said}": "le modèle local ne peut pas le lire ({code}) : {said}",
    "there is nothing to send: no page could be drawn, and there are no words": (
        "il n’y a rien à envoyer : aucune page n’a pu être dessinée, et il n’y a pas de mots"
    ),
    "gate {shown} is closed: {said}": "l’accès {shown} est fermé : {said}",
    "too many callers wait for it": "trop d’appels l’attendent",
    "over budget: this call would cost more than is left today (UTC)": (
        "budget épuisé : cet appel coûterait plus que ce qui reste aujourd’hui (UTC)"
    ),
    "over budget: ${spent} of ${budget} spent today (UTC), the next call may cost ${cost}": (
        "budget épuisé : {spent} $ sur {budget} $ dépensés aujourd’hui (UTC), le prochain appel pourrait "
        "coûter {cost} $"
    ),
    "one call finds out whether it is back: {said}": "un appel vérifie si le service est revenu : {said}",
    "{said}; one call will try again": "{said} ; un appel fera un nouvel essai",
    "the gate's database does not answer: {text}": "la base de données de l’accès ne répond pas : {text}",
}

#: How attempts end that nobody's code has ended.
ATTEMPTS = {
    "timed out after {n} s": "délai dépassé après {n} s",
    "rate limited, again in {n} s": "débit limité, nouvel essai dans {n} s",
    "no attempts left: this would be number {n}": "plus d’essai possible : ce serait le numéro {n}",
    "{said}; deferred {n} times already, max_deferrals reached": (
        "{said} ; déjà remis {n} fois, max_deferrals est atteint"
    ),
    "{said}; the deadline of {n} s since its first claim would pass": (
        "{said} ; le délai de {n} s depuis sa première prise serait dépassé"
    ),
    "quarantined after {n} crashes in a row; the last: {said}": (
        "mis en quarantaine après {n} plantages de suite ; le dernier : {said}"
    ),
    "crashed on its last attempt ({n}): {said}": "planté à son dernier essai ({n}) : {said}",
    "worker {worker} on {textworker} stopped renewing its lease: killed, frozen or cut off; claimed {text} UTC": (
        "le worker {worker} sur {textworker} n’a plus renouvelé son bail : tué, figé ou coupé ; pris le {text} UTC"
    ),
    (
        "worker {worker} on {textworker} stopped renewing its lease: killed, frozen or cut off; claimed {text} UTC; "
        "its last note: {said}"
    ): (
        "le worker {worker} sur {textworker} n’a plus renouvelé son bail : tué, figé ou coupé ; pris le {text} UTC "
        "; sa dernière note : {said}"
    ),
    "worker {textworker} stopped renewing its lease: killed, frozen or cut off; claimed {text} UTC": (
        "le worker {textworker} n’a plus renouvelé son bail : tué, figé ou coupé ; pris le {text} UTC"
    ),
    (
        "worker {textworker} stopped renewing its lease: killed, frozen or cut off; claimed {text} UTC; its last note: "
        "{said}"
    ): (
        "le worker {textworker} n’a plus renouvelé son bail : tué, figé ou coupé ; pris le {text} UTC ; sa dernière "
        "note : {said}"
    ),
}

REVIEW = {
    "{who} has claimed this item": "{who} a pris ce document",
    "the item is {who}'s now": "le document est maintenant à {who}",
    "the item is not claimed: claim it first": "le document n’est pas pris : prenez-le d’abord",
    "the item is finished: {status} by {who}": "le document est terminé ({status}, par {who})",
    "the item is finished: {status}": "le document est terminé ({status})",
    "the item is assigned to {who}": "le document est attribué à {who}",
    "the item is of version {n} by now; look at what has changed and decide again": (
        "le document en est à la version {n} ; voyez ce qui a changé et décidez de nouveau"
    ),
    "there is nobody called {shown} who reviews and is not away": (
        "il n’y a personne du nom de {shown} qui relise et qui soit là"
    ),
    "there is no reason {shown}; there are {text}": "il n’y a pas de raison {shown} ; il y a {text}",
    "say why: `other` alone tells nobody what to do": "dites pourquoi : « autre » ne dit à personne quoi faire",
    "the file of the document type {shown} has a mistake: {file}, line {n}: {text}": (
        "le fichier du type de document {shown} contient une erreur : {file}, ligne {n} : {text}"
    ),
    "name a field that there is": "nommez un champ qui existe",
    "correct the value": "corrigez la valeur",
    "send the ETag of the item as it came": "envoyez l’ETag du document tel qu’il est venu",
    "{shown} can be read in two ways; write {one} or {other}": (
        "{shown} peut se lire de deux façons ; écrivez {one} ou {other}"
    ),
    "nobody has looked at {fields}, and the reading is not sure of them": "personne n’a vérifié {fields}, et la "
    "lecture n’en est pas sûre",
    "nothing was read of it: give a value, or say what is not on the document": "rien n’y a été lu : donnez une "
    "valeur, ou dites ce qui n’est pas sur le document",
    "the review queue is paused: {text}": "la file de relecture est en pause : {text}",
    "{n} items are held already: finish or release some of them first": (
        "vous avez déjà {n} documents : terminez-en ou rendez-en d’abord"
    ),
    "{text} must be there: fill it in, or take the row out": (
        "{text} doit être rempli : remplissez-le, ou enlevez la ligne"
    ),
    "a draft has at most {n} characters": "un brouillon a au plus {n} caractères",
    "only an operator, or whoever the item is assigned to, may assign it": (
        "seul un opérateur, ou la personne à qui il est attribué, peut l’attribuer"
    ),
    "It cannot be read: too dark, cut off, or damaged": "Illisible : trop sombre, tronqué ou endommagé",
    "It is another kind of document": "C’est une autre sorte de document",
    "Pages or parts of it are missing": "Il manque des pages ou des parties",
    "It is here already, as another document": "Il est déjà là, comme autre document",
    "It is not meant for us": "Il ne nous est pas destiné",
    "What it says cannot be: its sums or dates do not fit": (
        "Ce qu’il dit est impossible : ses sommes ou ses dates ne concordent pas"
    ),
    "It looks forged, or not to be trusted": "Il semble faux, ou peu digne de confiance",
    "Something else; say what": "Autre chose ; dites quoi",
}

WORK: dict[str, str] = {**DOUBTS, **FAILURES, **MODELS, **ATTEMPTS, **REVIEW, **REQUESTS}
