"""Reads a picture of a page: finds lines, recognises them, parts them into words with boxes. Only inside a child.

The engine is rapidocr (PaddleOCR's models on onnxruntime), whose wheel carries the models: no network. Its detector and
its recogniser are used one after the other, so that a page on its side or on its head is noticed after a few lines.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from tabellion.reading.page import Box, Word

if TYPE_CHECKING:
    from PIL.Image import Image

Array = np.ndarray[Any, np.dtype[Any]]
#: The longest side the lines are cut from, and the longest the detector looks at.
SIDE, DETECTED = 2600, 960
#: So much of a line's height is cut off its upper and lower edge: what remains is recognised a little better.
TIGHT = 0.04
#: A picture longer than this many widths (a till roll) is read in bands of so many, with some overlap.
LONG, BAND, OVERLAP = 2.6, 1.5, 0.12
#: A line read with less certainty is not there.
LEAST = 0.5
#: So many of the longest lines tell which way is up, unless they are read with this certainty at once.
SAMPLE, CERTAIN = 6, 0.88
#: A line at least this much higher than wide stands on its side.
TALL = 1.5
#: A line so many heights long tells how the page lies; beyond this slope it is another kind of line.
LENGTHY, STEEP = 4, 0.3
#: A page that lies less askew, half a degree, is straight.
ASKEW = 0.0087
#: Less difference than this between light and dark, of 255, is an empty page.
FAINT = 24
#: The recogniser knows Chinese; in the scripts read here its wide punctuation is ours.
NARROW = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20, 0x3001: 0x2C, 0x3002: 0x2E}


@dataclass(frozen=True, slots=True)
class Seen:
    """What OCR makes of a picture."""

    words: tuple[Word, ...]  #: not yet in reading order
    score: float  #: mean certainty over all letters, 0 for an empty page
    rotation: int  #: degrees clockwise it was turned by to stand upright
    slope: float = 0.0  #: how far its lines then fall for each pixel to the right; 0 for a page that lies straight


@dataclass(frozen=True, slots=True)
class OcrLine:
    """One line as the recogniser read it: its four corners, the picture of it, and each letter's place along it."""

    corners: Array
    crop: Array
    text: str
    score: float
    places: tuple[float, ...]  #: of the letters that are not spaces, 0..1 along the crop
    scores: tuple[float, ...]  #: of every letter


@functools.cache
def engine() -> tuple[Any, Any]:
    """Detector and recogniser, made once per process: it takes a second or two."""
    from rapidocr import RapidOCR

    logging.getLogger("RapidOCR").setLevel(logging.CRITICAL)
    cv2.setNumThreads(1)
    whole: Any = RapidOCR(
        params={
            "Global.log_level": "critical",
            "Det.limit_type": "max",
            "Det.limit_side_len": DETECTED,
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )
    # Its classifier of upside-down lines, left out here, turns some long lines round and makes garbage of them.
    return whole._load_det_model(), whole._load_rec_model()


def see(image: Image) -> Seen:
    """The words of a picture, with boxes in the picture turned upright."""
    pixels = _pixels(image)
    if _blank(pixels):
        return Seen((), 0.0, 0)
    turns, lines = _upright(pixels)
    height, width = pixels.shape[:2] if turns % 2 == 0 else pixels.shape[1::-1]
    words = tuple(word for line in lines for word in _words(line, width, height))
    letters = sum(len(line.text) for line in lines)
    score = sum(line.score * len(line.text) for line in lines) / letters if letters else 0.0
    return Seen(words, score, turns * 90, _slope(lines))


def _slope(lines: Sequence[OcrLine]) -> float:
    """Of most lines, the long ones counting for more; short ones and those on their side tell nothing."""
    slopes = []
    for line in lines:
        across, down = _sides(line.corners)
        x, y = (line.corners[1] + line.corners[2] - line.corners[0] - line.corners[3]) / 2
        if across >= LENGTHY * down and x > 0 and abs(y / x) < STEEP:
            slopes += [float(y / x)] * int(across / down)
    found = float(np.median(slopes)) if slopes else 0.0
    return found if abs(found) >= ASKEW else 0.0


def _pixels(image: Image) -> Array:
    """The picture as the engine wants it, no larger than it looks at."""
    width, height = image.size
    # The side that counts is the longer one, but of a till roll it is the band that is read at a time.
    side = max(width, min(height, BAND * width)) if height > LONG * width else max(height, width)
    if side >= 2 * SIDE:
        image = image.reduce(int(side / SIDE))  # first, so that no second copy of a large picture is made
    pixels: Array = np.asarray(image.convert("RGB"))[:, :, ::-1]
    side *= pixels.shape[1] / width
    height, width = pixels.shape[:2]
    if side > SIDE:
        size = (max(1, round(width * SIDE / side)), max(1, round(height * SIDE / side)))
        pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(pixels)


def _blank(pixels: Array) -> bool:
    small = cv2.resize(pixels, (200, 200), interpolation=cv2.INTER_AREA)
    whole = small.astype(np.int16)
    return bool(whole.max() - whole.min() < FAINT)


def _upright(pixels: Array) -> tuple[int, list[OcrLine]]:
    """Quarter turns clockwise that make the page stand upright, and its lines then."""
    boxes = sorted(_detect(pixels), key=lambda box: -max(_sides(box)))
    sample = _recognise(pixels, boxes[:SAMPLE])
    turns = _turns(pixels, boxes, _mean(sample))
    if turns:
        pixels = np.ascontiguousarray(np.rot90(pixels, -turns))
        lines = _recognise(pixels, _detect(pixels))
    else:
        lines = sample + _recognise(pixels, boxes[SAMPLE:])
    return turns, [line for line in lines if line.score >= LEAST and line.text.strip()]


def _detect(pixels: Array) -> list[Array]:
    """The corners of each line."""
    height, width = pixels.shape[:2]
    if height <= LONG * width:
        return _detect_boxes(pixels)
    found = []
    step = round(BAND * width)
    margin = round(OVERLAP * width)
    for top in range(0, height, step):
        start, end = max(0, top - margin), min(height, top + step + margin)
        for corners in _detect_boxes(np.ascontiguousarray(pixels[start:end])):
            corners[:, 1] += start
            # Each line belongs to the band that its middle is in.
            if top <= corners[:, 1].mean() < top + step:
                found.append(corners)
    return found


def _detect_boxes(pixels: Array) -> list[Array]:
    boxes = engine()[0](pixels).boxes
    return [] if boxes is None else [np.array(box, dtype=np.float32) for box in boxes]


def _turns(pixels: Array, boxes: Sequence[Array], before: float) -> int:
    """Quarter turns clockwise, told by the longest lines and the certainty with which they were read."""
    longest = boxes[:SAMPLE]
    sideways = 2 * sum(down >= TALL * across for across, down in map(_sides, longest)) > len(longest)
    if not longest or (before >= CERTAIN and not sideways):
        return 0
    # A line on its side was turned anticlockwise to be read: right if its page was turned clockwise.
    after = _mean(_recognise(pixels, longest, headlong=True))
    if max(before, after) < CERTAIN:  # a bad print: more lines decide
        longest = boxes[: 4 * SAMPLE]
        before, after = (_mean(_recognise(pixels, longest, headlong)) for headlong in (False, True))
    if sideways:
        return 3 if before >= after else 1
    return 2 if after > before + 0.03 else 0


def _mean(lines: Sequence[OcrLine]) -> float:
    return sum(line.score for line in lines) / len(lines) if lines else 0.0


def _sides(corners: Array) -> tuple[float, float]:
    """Width and height of a box that may be at an angle."""
    across = max(np.linalg.norm(corners[0] - corners[1]), np.linalg.norm(corners[2] - corners[3]))
    down = max(np.linalg.norm(corners[0] - corners[3]), np.linalg.norm(corners[1] - corners[2]))
    return float(across), float(down)


def _recognise(pixels: Array, boxes: Sequence[Array], headlong: bool = False) -> list[OcrLine]:
    from rapidocr.ch_ppocr_rec import TextRecInput

    corners, crops = [], []
    for box in boxes:
        crop, placed = _crop(pixels, box)
        if crop is not None:
            crops.append(np.ascontiguousarray(np.rot90(crop, 2)) if headlong else crop)
            corners.append(placed)
    if not crops:
        return []
    read = engine()[1](TextRecInput(img=crops, return_word_box=True))
    lines = []
    for place, crop, text, score, letters in zip(
        corners, crops, read.txts, read.scores, read.word_results, strict=True
    ):
        columns = [column for word in letters.word_cols for column in word]
        length = letters.line_txt_len or 1
        places = tuple(min(1.0, (column + 0.5) / length) for column in columns)
        lines.append(OcrLine(place, crop, text.translate(NARROW), float(score), places, tuple(letters.confs)))
    return lines


def _crop(pixels: Array, corners: Array) -> tuple[Array | None, Array]:
    """The picture of one line, straightened, and its corners in the order of the crop's."""
    across, down = _sides(corners)
    if across < 2 or down < 2:
        return None, corners
    if down < TALL * across:
        inward = TIGHT * (corners[3] + corners[2] - corners[0] - corners[1]) / 2
        corners = (corners + np.array([inward, inward, -inward, -inward])).astype(np.float32)
    across, down = (max(2, int(side)) for side in _sides(corners))
    target = np.array([[0, 0], [across, 0], [across, down], [0, down]], dtype=np.float32)
    matrix = cv2.getPerspectiveTransform(corners, target)
    crop = cv2.warpPerspective(pixels, matrix, (across, down), borderMode=cv2.BORDER_REPLICATE, flags=cv2.INTER_CUBIC)
    if down >= TALL * across:
        return np.ascontiguousarray(np.rot90(crop)), np.roll(corners, -1, axis=0)
    return crop, corners


def _words(line: OcrLine, width: int, height: int) -> Iterator[Word]:
    """A line parted into words; each has the part of the line's box that its ink takes."""
    ink = _ink(line.crop)
    letters = [letter for letter in line.text if not letter.isspace()]
    if len(letters) != len(line.places) or not letters:
        yield Word(line.text.strip(), _part_box(line.corners, 0.0, 1.0, width, height), line.score)
        return
    middles = [place * len(ink) for place in line.places]
    gaps = [_gap(ink, before, after) for before, after in itertools.pairwise(middles)]
    spaced, scores = _find_spaces(line)
    usual = float(np.median([size for size, _ in gaps])) if gaps else 0.0
    high = line.crop.shape[0]
    start, left = 0, 0.0
    for index in range(len(letters)):
        last = index == len(letters) - 1
        if not last:
            size, middle = gaps[index]
            before = letters[index - 1] if index > start else ""
            parted = spaced[index] or size > high * _min_gap(before, letters[index], letters[index + 1], usual / high)
            if not parted:
                continue
        right = float(len(ink)) if last else middle
        x0, x1 = _trim_to_ink(ink, left, right)
        score = sum(scores[start : index + 1]) / (index + 1 - start)
        box = _part_box(line.corners, x0 / len(ink), x1 / len(ink), width, height)
        yield Word("".join(letters[start : index + 1]), box, score)
        start, left = index + 1, right


def _find_spaces(line: OcrLine) -> tuple[list[bool], list[float]]:
    """For every letter that is not a space: whether a space follows, and its score."""
    spaced, scores = [], []
    certain = line.scores if len(line.scores) == len(line.text) else (line.score,) * len(line.text)
    for letter, score in zip(line.text, certain, strict=True):
        if not letter.isspace():
            spaced.append(False)
            scores.append(score)
        elif spaced:
            spaced[-1] = True
    return spaced, scores


def _min_gap(before: str, letter: str, after: str, usual: float) -> float:
    """How wide a gap, in heights of the line, is a space that the recogniser did not see.

    It loses spaces above all behind punctuation and between columns of figures. What never has a space is left alone.
    """
    if after in ",.;:!?)]}%/-'’\"”»" or letter in "([{#@/-'’\"“«":
        return 9.0
    if letter in ".,:" and after.isdigit() and before.isdigit():
        return 9.0
    if letter in ",;":
        return max(0.15, 1.5 * usual)
    if letter in ".:!?)]}" or after == "(":
        return 9.0 if letter == "." and after.isdigit() else max(0.2, 1.5 * usual)
    return max(0.3 if letter.isdigit() != after.isdigit() else 0.36, 2.5 * usual)


def _ink(crop: Array) -> Array:
    """For every column of a line's picture, whether there is ink in it."""
    grey = cv2.cvtColor(crop, cv2.COLOR_BGR2GRAY)
    _, dark = cv2.threshold(grey, 0, 1, cv2.THRESH_BINARY_INV + cv2.THRESH_OTSU)
    if dark.mean() > 0.5:  # light letters on dark paper
        dark = 1 - dark
    high = crop.shape[0]
    # The edges may show parts of the lines above and below.
    body = dark[int(0.12 * high) : max(1, int(np.ceil(0.88 * high)))]
    inked: Array = body.sum(axis=0) > int(0.04 * high)
    return inked


def _gap(ink: Array, before: float, after: float) -> tuple[int, float]:
    """The widest stretch without ink between the middles of two letters: its width and its middle."""
    start = int(before)
    stretch = ink[start : max(start + 1, int(np.ceil(after)))]
    inked = np.flatnonzero(stretch)
    edges = np.concatenate(([-1], inked, [len(stretch)]))
    widths = np.diff(edges) - 1
    widest = int(widths.argmax())
    return int(widths[widest]), start + float(edges[widest] + edges[widest + 1]) / 2 + 0.5


def _trim_to_ink(ink: Array, left: float, right: float) -> tuple[float, float]:
    """The part from the first to the last ink."""
    inked = np.flatnonzero(ink[int(left) : int(np.ceil(right))])
    if not len(inked):
        return left, right
    return int(left) + float(inked[0]), int(left) + float(inked[-1]) + 1


def _part_box(corners: Array, start: float, end: float, width: int, height: int) -> Box:
    """A part of a line, 0..1 along it, as a box in shares of the page."""
    top, bottom = corners[1] - corners[0], corners[2] - corners[3]
    points = [corners[0] + start * top, corners[0] + end * top, corners[3] + start * bottom, corners[3] + end * bottom]
    xs = [float(point[0]) / width for point in points]
    ys = [float(point[1]) / height for point in points]
    return max(0.0, min(xs)), max(0.0, min(ys)), min(1.0, max(xs)), min(1.0, max(ys))
