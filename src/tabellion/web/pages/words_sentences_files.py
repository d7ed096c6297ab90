"""What is said of files and pages: why they cannot be read, what may be missing, what was noted; in French."""

from __future__ import annotations

#: What a file seems to be that is not read, with its article.
KINDS = {
    "an executable": "un programme",
    "an executable or Java class": "un programme ou une classe Java",
    "a script": "un script",
    "a gzip archive": "une archive gzip",
    "a bzip2 archive": "une archive bzip2",
    "an xz archive": "une archive xz",
    "a 7-Zip archive": "une archive 7-Zip",
    "a RAR archive": "une archive RAR",
    "a Zstandard archive": "une archive Zstandard",
    "an old Office document (DOC, XLS, PPT) or Outlook message": (
        "un ancien document Office (DOC, XLS, PPT) ou un message Outlook"
    ),
    "an RTF document": "un document RTF",
    "a PostScript document": "un document PostScript",
    "an EPS document": "un document EPS",
    "a Photoshop image": "une image Photoshop",
    "a JPEG 2000 image": "une image JPEG 2000",
    "a JPEG XL image": "une image JPEG XL",
    "a DjVu document": "un document DjVu",
    "an icon": "une icône",
    "a QOI image": "une image QOI",
    "a SQLite database": "une base de données SQLite",
    "a sound file": "un fichier sonore",
    "a sound or video file": "un fichier sonore ou vidéo",
    "a video": "une vidéo",
    "a Parquet file": "un fichier Parquet",
    "a WebAssembly module": "un module WebAssembly",
    "an e-mail": "un courriel",
    "a HEIC image": "une image HEIC",
    "a HEIF image": "une image HEIF",
    "an AVIF image": "une image AVIF",
    "a Word document (DOCX)": "un document Word (DOCX)",
    "an Excel workbook (XLSX)": "un classeur Excel (XLSX)",
    "a PowerPoint file (PPTX)": "un fichier PowerPoint (PPTX)",
    "an OpenDocument file": "un fichier OpenDocument",
    "an EPUB book": "un livre EPUB",
    "a JAR archive": "une archive JAR",
    "a ZIP archive": "une archive ZIP",
    "a tar archive": "une archive tar",
    "no format that is known here": "un format inconnu ici",
    "an SVG image": "une image SVG",
    "an HTML page": "une page HTML",
    "text": "du texte",
    "XML": "du XML",
    "JSON": "du JSON",
}

#: Why a document or a page could not be read.
UNREADABLE = {
    "the file has no bytes": "le fichier est vide",
    "there is no such file, or it may not be read": "ce fichier n’existe pas, ou ne peut pas être lu",
    "not one of PDF, PNG, JPEG, WebP, GIF, TIFF, BMP": "ni PDF, ni PNG, JPEG, WebP, GIF, TIFF ou BMP",
    "more bytes than the limit": "plus d’octets que la limite",
    "more pages than the limit": "plus de pages que la limite",
    "more pixels than the limit": "plus de pixels que la limite",
    "unpacks to far more than its size: a decompression bomb": (
        "se décomprime en bien plus que sa taille : une bombe de décompression"
    ),
    "took longer than the limit": "a pris plus de temps que la limite",
    "needed more memory or processor time than the limit": (
        "a demandé plus de mémoire ou de temps de calcul que la limite"
    ),
    "needed more memory or processor time than the limit ({text})": (
        "a demandé plus de mémoire ou de temps de calcul que la limite ({text})"
    ),
    "the process that read it died": "le processus qui le lisait s’est arrêté",
    "the process that read it died ({text})": "le processus qui le lisait s’est arrêté ({text})",
    "the reader returned an invalid result": "le lecteur a renvoyé un résultat invalide",
    "the reader returned an invalid result: {text}": "le lecteur a renvoyé un résultat invalide : {text}",
    "the process that read it stopped answering": "le processus qui le lisait n’a plus répondu",
    (
        "the process that read it was killed from outside (SIGKILL): by a person, or by a system that is short of "
        "memory"
    ): (
        "le processus qui le lisait a été tué de l’extérieur (SIGKILL) : par une personne, ou par un système à court "
        "de mémoire"
    ),
    "needs a password": "demande un mot de passe",
    "the PDF cannot be opened": "le PDF ne peut pas être ouvert",
    "the PDF has no pages": "le PDF n’a pas de pages",
    "the image cannot be decoded": "l’image ne peut pas être décodée",
    "the document has no page of that number": "le document n’a pas de page de ce numéro",
    "this is {said}; PDF, PNG, JPEG, WebP, GIF, TIFF and BMP are read": (
        "c’est {said} ; sont lus PDF, PNG, JPEG, WebP, GIF, TIFF et BMP"
    ),
    "this is a folder": "c’est un dossier",
    "this is not a regular file (a device, pipe or socket)": "ce n’est pas un fichier ordinaire",
    "the file cannot be opened: {text}": "le fichier ne peut pas être ouvert : {text}",
    "the file has {n} bytes; the limit is {nmost}": "le fichier a {n} octets ; la limite est {nmost}",
    "the document has {n} pages; the limit is {nmost}": "le document a {n} pages ; la limite est {nmost}",
    "the image has {n} x {nhigh} = {npixels} pixels; the limit is {nmost}": (
        "l’image a {n} x {nhigh} = {npixels} pixels ; la limite est {nmost}"
    ),
    "the image has {n} pixels; the limit is {nmost}": "l’image a {n} pixels ; la limite est {nmost}",
    "the image has too many pixels; the limit is {n}": "l’image a trop de pixels ; la limite est {n}",
    "the image unpacks {n} bytes to {npixels} pixels; the limit is {nmost} per byte": (
        "l’image décomprime {n} octets en {npixels} pixels ; la limite est {nmost} par octet"
    ),
    "the image cannot be decoded: it only begins like {kind}": (
        "l’image ne peut pas être décodée : elle ne fait que commencer comme {kind}"
    ),
    "the image cannot be decoded: {text}": "l’image ne peut pas être décodée : {text}",
    "there is no page {n}: the document has {nall}": "il n’y a pas de page {n} : le document en a {nall}",
    "no answer within the limit of {n} s a page and {nall} s a document": (
        "pas de réponse dans la limite de {n} s par page et {nall} s par document"
    ),
    "{n} MB in memory; the limit is {nmost}": "{n} Mo en mémoire ; la limite est {nmost}",
    "a message of {n} bytes; the limit is {nmost}": "un message de {n} octets ; la limite est {nmost}",
    "the password is not right": "le mot de passe n’est pas le bon",
    "the PDF needs a password to be opened: send a copy without one, or use `tabellion read --password`": (
        "le PDF demande un mot de passe : envoyez une copie qui n’en a pas, ou utilisez `tabellion read --password`"
    ),
    "the PDF is encrypted in a way that is not known here": "le PDF est chiffré d’une façon inconnue ici",
    "the PDF cannot be opened: it is cut off or damaged": (
        "le PDF ne peut pas être ouvert : il est tronqué ou endommagé"
    ),
    "the page cannot be loaded": "la page ne peut pas être chargée",
    "the page has no size": "la page n’a pas de taille",
    "nothing can be made of the page: its contents are damaged": (
        "rien ne peut être tiré de la page : son contenu est endommagé"
    ),
    "no page could be read": "aucune page n’a pu être lue",
    "no reason told": "sans raison connue",
    "could not be read": "n’a pas pu être lue",
}

#: What may be missing although it was read, and notes.
NOTES = {
    "the image is cut off or damaged: what could be decoded was read": (
        "l’image est tronquée ou endommagée : ce qui a pu être décodé a été lu"
    ),
    "the PDF is damaged or cut off: it was pieced together from what is there, and parts may be missing": (
        "le PDF est endommagé ou tronqué : il a été reconstitué avec ce qui reste, et des parties peuvent manquer"
    ),
    "forms lie within forms more than {n} deep: what is below that was not read": (
        "des formulaires sont imbriqués sur plus de {n} niveaux : ce qui est plus bas n’a pas été lu"
    ),
    "page {n} could not be read: {said}": "la page {n} n’a pas pu être lue : {said}",
    "page {n} is hard to read: quality {nshare}": "la page {n} est difficile à lire : qualité {nshare}",
    "page {n}: {said}": "page {n} : {said}",
    "page {n} of {nall}": "page {n} sur {nall}",
    "more words than can be looked at for fields: those of some pages were left out": (
        "plus de mots qu’on ne peut en examiner : ceux de certaines pages ont été laissés de côté"
    ),
    "no text was found": "aucun texte n’a été trouvé",
    "it is none of the types there are": "il n’est d’aucun des types qui existent",
    "the type {type} was left out: {said}": "le type {type} a été laissé de côté : {said}",
    "the name ends in {shown} but the content is {kind}": "le nom finit par {shown}, mais le contenu est {kind}",
    "the PDF has actions ({text}): they were ignored": "le PDF a des actions ({text}) : elles ont été ignorées",
    "embedded files that were left out, being too large or too many: {n}": (
        "fichiers joints laissés de côté, trop grands ou trop nombreux : {n}"
    ),
    "{n} of {nall} pages were sent to the model": "{n} pages sur {nall} ont été envoyées au modèle",
    "page {n} could not be drawn for the model: {said}": "la page {n} n’a pas pu être dessinée pour le modèle : {said}",
    "of page {n} the first {nsigns} characters were sent to the model": (
        "de la page {n}, les {nsigns} premiers caractères ont été envoyés au modèle"
    ),
}

FILES: dict[str, str] = {**KINDS, **UNREADABLE, **NOTES}
