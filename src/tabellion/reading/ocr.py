"""Reads a picture of a page: finds lines, recognises them, splits them into words with boxes. Only inside a child.

The engine is rapidocr (PaddleOCR's models on onnxruntime), whose wheel contains the models: no network. Its detector
and its recogniser are called separately, so that a rotated page is noticed after a few lines.
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
#: The longest side of the picture that lines are cut from, and of the one that the detector uses.
SIDE, DETECTED = 2600, 960
#: Share of a line's height that is cut off its upper and lower edge, which improves recognition a little.
TIGHT = 0.04
#: A picture longer than LONG widths (a till roll) is read in bands of BAND widths, with some overlap.
LONG, BAND, OVERLAP = 2.6, 1.5, 0.12
#: Lines with a lower score are dropped.
LEAST = 0.5
#: Number of the longest lines that decide which way is up, unless they reach this score at once.
SAMPLE, CERTAIN = 6, 0.88
#: A line at least this many times higher than wide is on its side.
TALL = 1.5
#: Lines at least this many heights long are used to measure the page's slope; steeper ones are ignored.
LENGTHY, STEEP = 4, 0.3
#: A page with a smaller slope (half a degree) counts as straight.
ASKEW = 0.0087
#: A page with less contrast than this, of 255, is empty.
FAINT = 24
#: The recogniser knows Chinese; its full-width characters become the usual ones.
NARROW = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20, 0x3001: 0x2C, 0x3002: 0x2E}


@dataclass(frozen=True, slots=True)
class OcrResult:
    """The result of OCR on a picture."""

    words: tuple[Word, ...]  #: not yet in reading order
    score: float  #: mean score of all letters, 0 for an empty page
    rotation: int  #: degrees clockwise by which it was rotated to be upright
    slope: float = 0.0  #: how far its lines then fall for each pixel to the right; 0 for a straight page


@dataclass(frozen=True, slots=True)
class OcrLine:
    """One recognised line: its four corners, its picture, and each letter's position along it."""

    corners: Array
    crop: Array
    text: str
    score: float
    places: tuple[float, ...]  #: of the letters that are not spaces, 0..1 along the crop
    scores: tuple[float, ...]  #: of every letter


@functools.cache
def engine() -> tuple[Any, Any]:
    """Detector and recogniser, loaded once per process: it takes a second or two."""
    from rapidocr import RapidOCR

    logging.getLogger("RapidOCR").setLevel(logging.CRITICAL)
    cv2.setNumThreads(1)
    rapidocr: Any = RapidOCR(
        params={
            "Global.log_level": "critical",
            "Det.limit_type": "max",
            "Det.limit_side_len": DETECTED,
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )
    # Its classifier of upside-down lines is not used: it rotates some long lines and turns them into garbage.
    return rapidocr._load_det_model(), rapidocr._load_rec_model()


def see(image: Image) -> OcrResult:
    """The words of a picture, with boxes in the upright picture."""
    pixels = _pixels(image)
    if _blank(pixels):
        return OcrResult((), 0.0, 0)
    turns, lines = _upright(pixels)
    height, width = pixels.shape[:2] if turns % 2 == 0 else pixels.shape[1::-1]
    words = tuple(word for line in lines for word in _words(line, width, height))
    letters = sum(len(line.text) for line in lines)
    score = sum(line.score * len(line.text) for line in lines) / letters if letters else 0.0
    return OcrResult(words, score, turns * 90, _slope(lines))


def _slope(lines: Sequence[OcrLine]) -> float:
    """The median slope of the lines, weighted by length, without short lines and lines on their side."""
    slopes = []
    for line in lines:
        across, down = _sides(line.corners)
        x, y = (line.corners[1] + line.corners[2] - line.corners[0] - line.corners[3]) / 2
        if across >= LENGTHY * down and x > 0 and abs(y / x) < STEEP:
            slopes += [float(y / x)] * int(across / down)
    slope = float(np.median(slopes)) if slopes else 0.0
    return slope if abs(slope) >= ASKEW else 0.0


def _pixels(image: Image) -> Array:
    """The picture in the engine's format, not larger than it uses."""
    width, height = image.size
    # The longer side counts, but for a till roll that of the band that is read at a time.
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
    levels = small.astype(np.int16)
    return bool(levels.max() - levels.min() < FAINT)


def _upright(pixels: Array) -> tuple[int, list[OcrLine]]:
    """Quarter turns clockwise that make the page upright, and its lines then."""
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
    """Quarter turns clockwise, decided by the longest lines and their scores in both directions."""
    longest = boxes[:SAMPLE]
    sideways = 2 * sum(down >= TALL * across for across, down in map(_sides, longest)) > len(longest)
    if not longest or (before >= CERTAIN and not sideways):
        return 0
    # A line on its side was rotated anticlockwise to be read: right if its page was rotated clockwise.
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
        crop, ordered = _crop(pixels, box)
        if crop is not None:
            crops.append(np.ascontiguousarray(np.rot90(crop, 2)) if headlong else crop)
            corners.append(ordered)
    if not crops:
        return []
    result = engine()[1](TextRecInput(img=crops, return_word_box=True))
    lines = []
    for line_corners, crop, text, score, letters in zip(
        corners, crops, result.txts, result.scores, result.word_results, strict=True
    ):
        columns = [column for word in letters.word_cols for column in word]
        length = letters.line_txt_len or 1
        places = tuple(min(1.0, (column + 0.5) / length) for column in columns)
        lines.append(OcrLine(line_corners, crop, text.translate(NARROW), float(score), places, tuple(letters.confs)))
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
    """The words of a line, each with the part of the line's box that its ink covers."""
    ink = _ink(line.crop)
    letters = [letter for letter in line.text if not letter.isspace()]
    if len(letters) != len(line.places) or not letters:
        yield Word(line.text.strip(), _part_box(line.corners, 0.0, 1.0, width, height), line.score)
        return
    middles = [place * len(ink) for place in line.places]
    gaps = [_gap(ink, before, after) for before, after in itertools.pairwise(middles)]
    spaced, scores = _find_spaces(line)
    usual = float(np.median([size for size, _ in gaps])) if gaps else 0.0
    line_height = line.crop.shape[0]
    start, left = 0, 0.0
    for index in range(len(letters)):
        last = index == len(letters) - 1
        if not last:
            size, middle = gaps[index]
            before = letters[index - 1] if index > start else ""
            separated = spaced[index] or size > line_height * _min_gap(
                before, letters[index], letters[index + 1], usual / line_height
            )
            if not separated:
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
    """The gap, in heights of the line, that counts as a space the recogniser missed.

    It loses spaces mostly after punctuation and between columns of figures. Where a space never occurs the gap is huge.
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
    line_height = crop.shape[0]
    # The edges may show parts of the lines above and below.
    body = dark[int(0.12 * line_height) : max(1, int(np.ceil(0.88 * line_height)))]
    inked: Array = body.sum(axis=0) > int(0.04 * line_height)
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
    """A part of a line, 0..1 along it, as a box in fractions of the page."""
    top, bottom = corners[1] - corners[0], corners[2] - corners[3]
    points = [corners[0] + start * top, corners[0] + end * top, corners[3] + start * bottom, corners[3] + end * bottom]
    xs = [float(point[0]) / width for point in points]
    ys = [float(point[1]) / height for point in points]
    return max(0.0, min(xs)), max(0.0, min(ys)), min(1.0, max(xs)), min(1.0, max(ys))
