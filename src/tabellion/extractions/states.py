"""The states of a row of `extraction_queue`, by the numbers and names that its users know."""

from __future__ import annotations

from enum import IntEnum


class ExtractionStatus(IntEnum):
    """What `status_id` says.

    EN_ATTENTE → EN_TRAITEMENT → COMPLETE → OCR_PROCESSING → EXTRACTION_COMPLETE; ERREUR ends either half, and
    `error_message` or `ocr_error` says which.
    """

    EN_ATTENTE = 1  #: waits for a worker to fetch it from its registry
    EN_TRAITEMENT = 2  #: is being fetched
    COMPLETE = 3  #: its file is stored; waits for a worker to read it
    ERREUR = 4  #: failed
    EXTRACTION_COMPLETE = 5  #: its text is stored
    OCR_PROCESSING = 6  #: is being read
