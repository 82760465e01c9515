"""Links: every relative link of every page leads to a file, and to a heading where it names one. No network is used."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
REFERENCE = re.compile(r"^\[[^\]]+\]:\s+<?(\S+?)>?\s*$", re.MULTILINE)
TAG = re.compile(r"<(?:img|a)\b[^>]*?(?:src|href)=\"([^\"]+)\"")


def pages() -> list[Path]:
    """The Markdown files of the repository, without what is ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode == 0 and found.stdout:
        return sorted(path for line in found.stdout.splitlines() if (path := ROOT / line).exists())
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])


def prose(text: str) -> str:
    """A page without its blocks of code and its inline code."""
    return re.sub(r"`[^`\n]*`", "", blocks_removed(text))


def blocks_removed(text: str) -> str:
    return re.sub(r"^(```+|~~~+).*?^\1\s*?$", "", text, flags=re.DOTALL | re.MULTILINE)


def targets(text: str) -> Iterator[str]:
    """Where the links of a page lead, other pages' addresses included."""
    shown = prose(text)
    for pattern in (LINK, REFERENCE, TAG):
        yield from pattern.findall(shown)


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub links to them; a second heading of one name has a number."""
    text = blocks_removed(page.read_text(encoding="utf-8"))
    seen: Counter[str] = Counter()
    found = set(re.findall(r"<a\s+(?:id|name)=\"([^\"]+)\"", text))
    for heading in re.findall(r"^#{1,6}\s+(.+?)\s*#*\s*$", text, re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere, with the reason."""
    found = []
    for target in targets(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z][a-z+.-]*:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        goal = page.parent / path if path else page
        if not goal.exists():
            found.append(f"{target}: no such file")
        elif anchor and (goal.is_dir() or anchor not in anchors(goal)):
            found.append(f"{target}: no such heading")
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    assert not broken(page)


def test_the_pages_of_the_repository_are_found() -> None:
    names = {page.relative_to(ROOT).as_posix() for page in pages()}
    assert {"README.md", "CONTRIBUTING.md", "docs/algorithms.md", "docs/adr/0001-the-seam.md"} <= names


def test_broken_links_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A `b` c\n\n# Same\n\n# Same\n\n```\n# not a heading\n```\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](there.md#a-b-c) [b](there.md#same-1) [c](#here) [d](https://example.org/x) `[e](nowhere.md)`\n"
        '<img src="lost.svg"> ![f](lost.png) [g](there.md#not-a-heading) [h](#gone)\n[i]: lost.txt\n'
    )
    assert broken(page) == [
        "lost.png: no such file",
        "there.md#not-a-heading: no such heading",
        "#gone: no such heading",
        "lost.txt: no such file",
        "lost.svg: no such file",
    ]
