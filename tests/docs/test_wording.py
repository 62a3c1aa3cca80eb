"""Pages, help, errors, docstrings, comments and the dashboard are free of phrases that stop a native reader.

`python tests/docs/test_wording.py` prints each place.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
COMPARED = (
    "longer|more|less|slower|faster|better|worse|later|larger|smaller|sooner|greater|shorter|higher|lower|different"
)
# Phrases, and what to write instead.
PHRASES = {
    rf"(?<!there )(?<!would )(?<!will )\b(is|are|was|were|be) no (?!(?:{COMPARED}|need|use|way|one)\b)": "is not a",
    r"\b(in|with) (a|one) sentence\b|\bsentence says\b": "with an error, prints a notice",
    r"\b(was|were|been) (not |never )?(yet )?tried\b|\bnobody has (yet )?tried\b": "tested, untested",
    r"\btests? holds? (this|that|it|them|the)\b|\.py`? holds? (this|that|it)\b|\bheld by (a )?tests?\b": "tested by",
    r"\banew\b": "again, start over",
    r"(?<![\w`.(,])meanwhile(?![\w`(:=])": "in the meantime, or nothing",
    r"\b(whoever|whomever|whence|thereof|therein|whereby|hitherto|lest)\b|\bas ever\b": "any process, unchanged",
    r"\bmakes? of (it|them|this)\b": "predicts, computes",
    r"(?<!user )(?<!you )\b(is|are|was|were|be|been) asked (?!to\b)": "queried, polled, requested",
    r"\b(is|are|was|were|be|been) told (?!apart\b|to\b)": "reported, printed, called with",
    r"\b(folder|file|list|dict|directory) (that )?holds\b": "contains",
    r"\b(is|are|was|were|be|been) refused\b": "rejected, raises an error",
    r"\bwhat (it|they) cannot\b": "anything else",
    r"\bto the bit\b": "bit for bit",
    r"\bno equal\b": "no equivalent",
    r"\btruth values?\b": "booleans",
    r"\b(go|goes|going|went) on\b": "continue, under way",
    r"\bleft out\b": "omitted, skipped",
    r"\bwhole numbers?\b": "integer",
    r"\bmend(s|ed|ing)?\b": "fix, recover",
    r"\bshared? out\b": "divide",
    r"\btaken back\b": "removed, undone",
    r"\band told\b": "with a message",
    r"\blikeliest\b": "deterministic",
    r"\bwho learns\b": "the learner",
    r"\bwhole checkpoint": "complete checkpoint",
}


class Text(NamedTuple):
    """A text that people read, and where it is."""

    path: Path
    line: int
    words: str


def texts() -> Iterator[Text]:
    """All of the repository except tests, whose texts are read by those who change them."""
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")):
        yield from page_texts(path)
    for folder in ("src", "benchmarks", "examples", "gameboy_game", "docs/_site"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from python_texts(path)
    for ending in ("*.js", "*.css", "*.html", "*.c"):
        for path in sorted((ROOT / "src").rglob(ending)):
            if "vendor" not in path.parts:
                yield from web_texts(path)


def page_texts(path: Path) -> Iterator[Text]:
    """The paragraphs of a page, without code."""
    code = r"^```.*?^```|`[^`\n]*`"
    text = re.sub(
        code, lambda found: "\n" * found[0].count("\n") or "`X`", path.read_text(), flags=re.DOTALL | re.MULTILINE
    )
    for found in re.finditer(r"(?:.+\n)+", text):
        yield Text(path, text.count("\n", 0, found.start()) + 1, found[0])


# Found by reading: to parse all modules takes ten times as long. Strings that follow each other are one, as in Python,
# and so are lines of comments.
QUOTED = r"""\"{3}(?:\\.|(?!\"{3}).)*\"{3}|'{3}(?:\\.|(?!'{3}).)*'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
STRING = rf"(?:\b[bfruBFRU]{{1,2}})?(?:{QUOTED})"
PYTHON = re.compile(rf"({STRING}(?:\s*{STRING})*)|#[^\n]*(?:\n *#[^\n]*)*", re.DOTALL)
EXAMPLE = re.compile(r"^\s*(>>>|\.\.\.) .*$|`[^`\n]*`", re.MULTILINE)


def python_texts(path: Path) -> Iterator[Text]:
    """Comments, docstrings without their examples, and texts with a space, such as errors and help."""
    source = path.read_text()
    for found in PYTHON.finditer(source):
        words = found[0]
        if found[1] is None:
            words = re.sub(r"(^|\n *)#", " ", words)
        elif " " in words:
            parts = (_text_of(part[0]) for part in re.finditer(STRING, words, re.DOTALL))
            words = EXAMPLE.sub("`X`", "".join(parts))
        else:
            continue
        yield Text(path, source.count("\n", 0, found.start()) + 1, words)


def _text_of(string: str) -> str:
    """What a string in Python's quotes says, with an X for each value in it."""
    prefix, quote, rest = re.split("""(\"{3}|'{3}|["'])""", string, maxsplit=1)
    text = re.sub(
        r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), rest.removesuffix(quote), flags=re.DOTALL
    )
    return re.sub(r"\{[^{}]*\}", "X", text) if "f" in prefix.lower() else text


def web_texts(path: Path) -> Iterator[Text]:
    """Comments, texts in quotes, and what is between tags."""
    text = path.read_text()
    parts = r"//[^\n]*(?:\n\s*//[^\n]*)*|/\*.*?\*/|\"[^\"\n]* [^\"\n]*\"|`[^`]* [^`]*`|>[^<>{}]* [^<>{}]*<"
    for found in re.finditer(parts, text, re.DOTALL):
        yield Text(
            path, text.count("\n", 0, found.start()) + 1, re.sub(r"//|^\s*\*", " ", found[0], flags=re.MULTILINE)
        )


def found_phrases() -> Iterator[str]:
    """Each place with a phrase, and what to write instead. Many texts are searched at once, a line each."""
    found = list(texts())
    lines = [" ".join(text.words.split()) for text in found]
    ends = list(accumulate(len(line) + 1 for line in lines))
    for at, around, better in unclear("\n".join(lines)):
        text = found[bisect_right(ends, at)]
        yield f"{text.path.relative_to(ROOT)}:{text.line}: ...{around}... ({better})"


def unclear(words: str) -> list[tuple[int, str, str]]:
    """Where phrases begin in a text, each with a few words around it, and what to write instead."""
    words = words.lower()
    return [
        (found.start(), words[max(0, found.start() - 40) : found.end() + 30], better)
        for phrase, better in PHRASES.items()
        for found in re.finditer(phrase, words)
    ]


def test_no_phrase_stops_a_reader():
    assert not list(found_phrases())


@pytest.mark.parametrize(
    "words",
    [
        "CartPole is no game for two",
        "what does not fit is refused",
        "it ends with a sentence",
        "the episode begins anew",
        "macOS was not tried",
        "A feed is asked when a bar should be complete",
    ],
)
def test_phrases_are_found(words):
    assert unclear(words)


def test_texts_in_python_are_found(tmp_path):
    """Comments of several lines, docstrings, strings that Python joins, with values in them, and escapes."""
    file = tmp_path / "code.py"
    file.write_text(
        """\"\"\"It begins\n    anew.\"\"\"\nx = 'a' + "#"  # nobody\n# tried\ny = ("is " # so\n)\n"""
        """z = ("it is \\"told\\"\\n"\n    f'of {x["a"]} ' r"games")\n"""
    )
    found = [(text.line, " ".join(text.words.split())) for text in python_texts(file)]
    assert found == [(1, "It begins anew."), (3, "nobody tried"), (5, "is"), (5, "so"), (7, 'it is "told" of X games')]


@pytest.mark.parametrize(
    "words", ["there is no run", "it is no longer there", "the user is asked", "they are told apart"]
)
def test_plain_words_are_not(words):
    assert not unclear(words)


if __name__ == "__main__":
    places = list(found_phrases())
    print(*places, sep="\n")
    sys.exit(1 if places else 0)
