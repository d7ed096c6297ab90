"""The states of a row of `extraction_queue`: the numbers and names that its other programs use."""

from __future__ import annotations

from enum import IntEnum


class ExtractionStatus(IntEnum):
    """The values of `status_id`.

    EN_ATTENTE → EN_TRAITEMENT → COMPLETE → OCR_PROCESSING → EXTRACTION_COMPLETE; ERREUR ends either half: OCR if
    `ocr_error` has a text, else the extraction.
    """

    EN_ATTENTE = 1  #: waiting for a worker to fetch it from its registry
    EN_TRAITEMENT = 2  #: being fetched
    COMPLETE = 3  #: the file is stored; waiting for OCR
    ERREUR = 4  #: failed
    EXTRACTION_COMPLETE = 5  #: the text is stored
    OCR_PROCESSING = 6  #: OCR is running
