"""The project speaks the terms of its field: retired names stand neither in identifiers nor in prose."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CODE = ("src", "tests", "benchmarks", "examples")
THIS = "tests/test_vocabulary.py"

# Whole parts of identifiers, split at underscores and capitals, and what to write instead.
RETIRED_PARTS: Mapping[str, str] = {
    **dict.fromkeys(("say", "says"), "send, predict, log"),
    **dict.fromkeys(("said", "told"), "description, message, reply, predictions"),
    **dict.fromkeys(("tell", "tells"), "send, report, reveal, distinguish"),
    "heard": "received, accepted",
    **dict.fromkeys(("letter", "letters", "parcel"), "envelope, chunk"),
    "book": "ledger_store",
    **dict.fromkeys(("cell", "cells"), "run, cached run"),
    **dict.fromkeys(("deal", "deals", "dealt"), "split, partition"),
    **dict.fromkeys(("chance", "chances"), "rng, probability"),
    **dict.fromkeys(("optimiser", "optimisers"), "optimizer"),
    **dict.fromkeys(("normalise", "normalised", "initialise", "initialised"), "normalize, initialize"),
    **dict.fromkeys(("quantise", "quantised", "standardised"), "quantize, standardize"),
    **dict.fromkeys(("colour", "colours", "grey"), "color, gray"),
    **dict.fromkeys(("settle", "settled"), "fine_tune"),
    "blank": "template",
    "lots": "tie_breakers",
    **dict.fromkeys(("rehearse", "rehearsed", "rehearsal"), "smoke test"),
    "kept": "stored, cached, existing",
    "draft": "temporary, output",
    "verdict": "assessment",
    "worth": "epsilon, guarantee",
    "apart": "distance, separate",
    "bare": "unprotected, plain",
    **dict.fromkeys(("liar", "liars"), "attacker, Byzantine party"),
    **dict.fromkeys(("kin", "kindred"), "related"),
    "lesson": "training set",
    **dict.fromkeys(("venture", "led"), "run configuration, run result"),
    **dict.fromkeys(("mix", "mixes"), "distribution"),
    "usable": "valid, training rows",
    **dict.fromkeys(("enquiry", "enquiries"), "query"),
    **dict.fromkeys(("reckon", "reckoned"), "compute"),
    **dict.fromkeys(("nursery", "mortal", "bench"), "fork server, crash, job barrier"),
    **dict.fromkeys(("bend", "bends"), "kernel principal components"),
    "planner": "calibration",
    **dict.fromkeys(("bear", "bears"), "spawn, support"),
}
# Whole identifiers; their words are ordinary ones in other names.
RETIRED_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("Say", "SayIn", "SayTowards", "Said"), "PredictRequest, Predictions"),
    **dict.fromkeys(
        ("Adopt", "Begin", "Learn", "Revisit", "Measure"), "InstallModel, Initialize, DigestConsensus, ..."
    ),
    **dict.fromkeys(("Counts", "Belief", "Weight"), "ClassCounts, PriorEstimate, VoteWeight"),
    **dict.fromkeys(("Question", "Answer"), "RequestEnvelope, ReplyEnvelope"),
    **dict.fromkeys(("Spend", "Figure"), "DpEvent, PrivacyGuarantee"),
    **dict.fromkeys(("NothingPrivate", "Means", "Chance"), "PostProcessing, NoisePlan, NoiseSource"),
    **dict.fromkeys(("Blank", "Ask", "Asking"), "InitialWeights, ForwardPass, PredictJob"),
    **dict.fromkeys(("Place", "Course", "Patience"), "Device, TrainingRun, deadline"),
    **dict.fromkeys(("Cut", "Plan", "Exchange", "Done"), "Split, NoisePlan, RequestTraffic, Acknowledgement"),
    **dict.fromkeys(("PartitionedRows", "partition_rows"), "SplitRows, split_rows"),
    **dict.fromkeys(("PARTING", "PAYS_FROM"), "DISCONNECT_DELAY, MIN_STEPS_TO_COMPILE"),
    "UNITS": "a name of its own in each module",
}
# Constants say what they bound.
RETIRED_CONSTANT = re.compile(r"_?(MOST|FEWEST|LEAST|LARGEST|SMALLEST|LONGEST|FARTHEST|ENOUGH)(_.*)?|.*_(APART|ENOUGH)")

# Identifiers that hold a retired part in another sense, by file, and why.
ALLOWED = {
    ("src/limbeck/data/sets.py", "letter"): "a letter of the alphabet",
    ("tests/data/test_sets.py", "letters"): "letters of the alphabet",
    ("src/limbeck/report/comparison.py", "_cells"): "cells of a printed table",
    ("src/limbeck/report/pictures.py", "_cell"): "a cell of a printed table",
    ("tests/report/test_statement.py", "cells"): "cells of a table in Markdown",
    ("tests/report/test_statement.py", "cell"): "a cell of a table in Markdown",
    ("tests/crashing_model.py", "tell"): "a file's own method",
    ("src/limbeck/report/pictures.py", "Figure"): "of matplotlib",
    ("benchmarks/fedkd.py", "Figure"): "of matplotlib",
    ("tests/report/test_curves.py", "Figure"): "of matplotlib",
}

# Words and phrases that have no other sense in the project's prose, and what to write instead.
RETIRED_PROSE: Mapping[str, str] = {
    r"reckon\w*": "compute",
    r"heard": "received",
    r"bare(ly)?": "unprotected",
    r"kin|kindred": "related methods",
    r"liars?": "Byzantine parties",
    r"lessons?": "training set",
    r"nurser(y|ies)": "fork server",
    r"parcels?": "chunk",
    r"ventures?": "run configuration",
    r"dealt|deals? rows": "split, partitioned",
    r"rehears\w+": "smoke test",
    r"told": "reported, sent, distinguished",
    r"said": "sent, predicted, stated",
    r"as printed|the printed (vote|noise|method|algorithm)": "as in the paper",
    r"(finished|kept|all|many|more|of|a|the|bad|no|own) cells?(?! of (a|the|its) (table|line))": "run, cached run",
    r"(whose|their|its|the|own|every|in a) houses?": "site, package",
    r"the rooms?": "package",
    r"verdicts?": "assessment",
    r"enquir(y|ies)": "query",
    r"no theorem": "no guarantee available",
    r"dead columns?": "constant columns",
    r"optimisers?": "optimizer, as in the recipe",
    r"tolerably|forthwith|betwixt|hitherto|withal|whilst": "plain English",
    r"(?<!Li, )he(?! et al)|she|his|hers?|him|himself|herself": "they, the person, or another subject",
}
PROSE = {re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE): instead for pattern, instead in RETIRED_PROSE.items()}
# The changelog names what was renamed; the others are texts of other authors.
UNREAD = re.compile(r"CHANGELOG\.md|CODE_OF_CONDUCT\.md|LICENSE")
CODE_SPAN = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
# Data, not prose: strings with these words are compared with older files or given to other programs.
ALLOWED_STRINGS = {
    ("src/limbeck/tables.py", "optimiser"): "the former name of a key",
    ("tests/test_tables.py", "optimiser"): "the former name of a key",
    ("tests/test_tables.py", "recipe: optimiser is now optimizer"): "the message about it",
    ("tests/test_tables.py", "digest: optimiser is now optimizer"): "the message about it",
    ("src/limbeck/models/schedule.py", "chance"): "the purpose of a random stream: another name gives other numbers",
}


def parts(identifier: str) -> list[str]:
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)]


def identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, line
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name, line
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield name, line
            case ast.ExceptHandler(name=str(name)):
                yield name, line
            case ast.MatchClass(kwd_attrs=names) | ast.Global(names=names) | ast.Nonlocal(names=names):
                yield from ((each, line) for each in names)
            case ast.alias(name=name, asname=asname):
                yield from ((each, line) for each in (*name.split("."), asname or ""))


def retired_identifiers(source: str, path: str) -> list[str]:
    """Lines that name each identifier of a retired word once."""
    found = {}
    for name, line in identifiers(ast.parse(source)):
        if (path, name) in ALLOWED or name in found:
            continue
        word = next((part for part in parts(name) if part in RETIRED_PARTS), "")
        if name in RETIRED_NAMES:
            found[name] = f"{path}:{line}: {name}: rather {RETIRED_NAMES[name]}"
        elif word:
            found[name] = f"{path}:{line}: {name}: rather {RETIRED_PARTS[word]}"
        elif name.isupper() and RETIRED_CONSTANT.fullmatch(name):
            found[name] = f"{path}:{line}: {name}: rather MAX_ or MIN_ and of what"
    return list(found.values())


def retired_prose(text: str, path: str, first: int = 1) -> list[str]:
    """Lines that name each retired word of a text; what stands in code spans is left to the other check."""
    text = CODE_SPAN.sub(lambda span: re.sub(r"[^\n]", " ", span.group()), text)
    found = []
    for pattern, instead in PROSE.items():
        for match in pattern.finditer(text):
            line = first + text.count("\n", 0, match.start())
            found.append(f"{path}:{line}: {match.group()!r}: rather {instead}")
    return found


def prose_of(source: str) -> Iterator[tuple[str, int]]:
    """Docstrings, messages and comments of a module, with the line that each begins in."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, node.lineno
    for number, line in enumerate(source.splitlines(), 1):
        if comment := re.search(r"(?:^|  )# (.*)", line):
            yield comment.group(1), number


def files_of_code() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for part in CODE for path in (ROOT / part).rglob("*.py"))


def files_of_prose() -> list[str]:
    kinds = {"docs": ("md", "svg"), "benchmarks": ("md", "sh"), "examples": ("md", "toml"), ".github": ("md", "yml")}
    pages = [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), ROOT / "Makefile", ROOT / "constraints.txt"]
    pages += [path for part, ends in kinds.items() for end in ends for path in (ROOT / part).rglob(f"*.{end}")]
    names = sorted(str(path.relative_to(ROOT)) for path in pages)
    return [name for name in names if not UNREAD.match(name)]


def retired_strings(source: str, path: str) -> list[str]:
    found = []
    for text, line in prose_of(source):
        if (path, text) not in ALLOWED_STRINGS:
            found += retired_prose(text, path, line)
    return found


@pytest.mark.parametrize("path", [path for path in files_of_code() if path != THIS])
def test_no_identifier_is_retired(path: str) -> None:
    assert retired_identifiers((ROOT / path).read_text(encoding="utf-8"), path) == []
    assert [part for part in parts(Path(path).stem) if part in RETIRED_PARTS] == []


@pytest.mark.parametrize("path", files_of_prose())
def test_no_page_has_a_retired_word(path: str) -> None:
    assert retired_prose((ROOT / path).read_text(encoding="utf-8"), path) == []


@pytest.mark.parametrize("path", [path for path in files_of_code() if path != THIS])
def test_no_docstring_comment_or_message_has_a_retired_word(path: str) -> None:
    assert retired_strings((ROOT / path).read_text(encoding="utf-8"), path) == []


def test_what_is_allowed_is_there() -> None:
    for path, name in ALLOWED:
        assert name in {known for known, _ in identifiers(ast.parse((ROOT / path).read_text(encoding="utf-8")))}
    for path, text in ALLOWED_STRINGS:
        assert text in {known for known, _ in prose_of((ROOT / path).read_text(encoding="utf-8"))}


@pytest.mark.parametrize(
    "source",
    [
        "told = 1",
        "def f(said): ...",
        "def heard(): ...",
        "class LetterBox: ...",
        "class A:\n    book: int",
        "a.next_letter()",
        "f(optimiser=1)",
        "from a import dealt",
        "import a.nursery",
        "import b as lesson",
        "MOST_ROWS = 1",
        "LARGEST = 1",
        "with open(a) as kept_file: ...",
        "match a:\n    case b if b:\n        pass\n    case said:\n        pass",
        "match a:\n    case [1, *told]:\n        pass",
        "match a:\n    case {1: 2, **heard}:\n        pass",
        "match a:\n    case B(said=1):\n        pass",
        "try: ...\nexcept ValueError as lesson: ...",
        "def f():\n    global parcel\n",
        "def f():\n    def g():\n        nonlocal verdict\n",
        "class Adopt: ...",
        "from a import Belief",
        "UNITS = {}",
        "bends = 1",
        "def noise_planner(): ...",
        "bench.start()",
    ],
)
def test_a_planted_identifier_is_found(source: str) -> None:
    assert len(retired_identifiers(source, "planted.py")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "The epsilon is reckoned here.",
        "What the server heard",
        "Kin of FedKT",
        "Two liars of ten.",
        "the rows are dealt to parties",
        "finished cells are reused",
        "FedKT as printed",
        "what was told\nto the server",
        "an optimiser",
        "A person with his rows",
        "she agrees",
        "It belongs to him.",
    ],
)
def test_a_planted_word_is_found(text: str) -> None:
    assert len(retired_prose(text, "planted.md")) == 1
    assert len(retired_strings(f'"""{text}"""', "planted.py")) == 1
    assert len(retired_strings(f'raise ValueError(f"{{x}} {text!r}")', "planted.py")) == 1


def test_ordinary_english_and_code_stay() -> None:
    assert retired_prose("Li, He & Song 2021; He et al. 2016; the theme, usher and history", "planted.md") == []
    assert retired_identifiers("class Count: ...\nplace = cut = done = figure = bending = 1", "planted.py") == []
    source = "right = take(ask, all, towards)\nfold = foretold = Retold\nmost = fewest = 1"
    assert retired_identifiers(source, "planted.py") == []
    assert retired_prose("The right parties ask; take `said` and `told`.\n```\ntold = 1\n```", "planted.md") == []
