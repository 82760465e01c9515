"""A folder of awkward files, such as users have: `python tests/data/awkward_files.py FOLDER` writes them."""

import sys
from pathlib import Path

import numpy as np

PLAIN = "patient,age,crp,sex,seen,outcome\n" + "".join(
    f"P{i:03},{20 + i % 60},{i % 17 + 0.5},{'fm'[i % 2]},2024-0{1 + i % 9}-1{i % 10},{('no', 'yes')[i % 3 == 0]}\n"
    for i in range(120)
)


def with_semicolons(text: str) -> str:
    """Write a file as Excel does in half of Europe."""
    return text.replace(",", ";").replace(".", ",")


def replaced(text: str, row: int, column: int, value: str) -> str:
    """Change one value; rows count from 1."""
    lines = text.split("\n")
    values = lines[row].split(",")
    values[column] = value
    lines[row] = ",".join(values)
    return "\n".join(lines)


def with_column(text: str, name: str, values: list[str]) -> str:
    """Add a column at the end."""
    first, *lines = text.strip().split("\n")
    return "\n".join([f"{first},{name}", *(f"{line},{value}" for line, value in zip(lines, values, strict=True)), ""])


def write_all(folder: Path) -> None:
    """Write every file."""
    texts = {
        "semicolons.csv": with_semicolons(PLAIN),
        "tabs.tsv": PLAIN.replace(",", "\t"),
        "bars.txt": PLAIN.replace(",", "|"),
        "sep-line.csv": "sep=;\n" + with_semicolons(PLAIN),
        "quotes.csv": "\n".join(",".join(f'"{v}"' for v in line.split(",")) for line in PLAIN.strip().split("\n")),
        "quoted-newline.csv": replaced(PLAIN, 3, 3, '"f\nemale, or so"'),
        "windows-lines.csv": PLAIN.replace("\n", "\r\n"),
        "below-limit.csv": replaced(replaced(PLAIN, 1, 2, "<5"), 2, 2, ">= 90"),
        "percent.csv": replaced(PLAIN, 1, 2, "12 %"),
        "thousands.csv": replaced(PLAIN, 1, 2, '"1,234.5"'),
        "word-for-missing.csv": replaced(replaced(PLAIN, 1, 2, "n.d."), 7, 2, "n.d."),
        "blanks-and-case.csv": replaced(replaced(PLAIN, 1, 5, " Yes "), 4, 5, "YES"),
        "spaced-header.csv": PLAIN.replace("patient,age", " patient , age "),
        "index-column.csv": "\n".join(
            f"{i},{line}" if i else f",{line}" for i, line in enumerate(PLAIN.split("\n")[:-1])
        ),
        "german-dates.csv": "\n".join(
            ",".join([*line.split(",")[:4], ".".join(reversed(line.split(",")[4].split("-"))), line.split(",")[5]])
            for line in PLAIN.strip().split("\n")
        ),
        "unclear-dates.csv": "age,seen,outcome\n"
        + "".join(f"{i},0{i % 9 + 1}/0{i % 8 + 1}/2024,{i % 2}\n" for i in range(30)),
        "empty-column.csv": with_column(PLAIN, "remark", [""] * 120),
        "remarks.csv": with_column(PLAIN, "remark", [f"seen by Dr {i} twice" for i in range(120)]),
        "mixed-types.csv": with_column(PLAIN, "dose", [f"{i}" if i % 3 else f"{i} mg at {i} h" for i in range(120)]),
        "wrong-value.csv": replaced(PLAIN, 17, 1, "old"),
        "comma-and-point.csv": replaced(with_column(PLAIN, "dose", ['"1,25"'] * 120), 5, 2, "3.25"),
        "duplicate-names.csv": PLAIN.replace("crp", "age"),
        "too-many-values.csv": replaced(PLAIN, 9, 3, "f,m"),
        "one-row.csv": "\n".join(PLAIN.split("\n")[:2]) + "\n",
        "no-rows.csv": PLAIN.split("\n")[0] + "\n",
        "empty.csv": "",
        "no-label.csv": replaced(PLAIN, 2, 5, ""),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    accents = PLAIN.replace(",f,", ",weiß,")
    (folder / "latin-1.csv").write_bytes(accents.encode("latin-1"))
    (folder / "bom.csv").write_bytes(accents.encode("utf-8-sig"))
    (folder / "utf-16.csv").write_bytes(accents.encode("utf-16"))
    (folder / "excel-named-csv.csv").write_bytes(b"PK\x03\x04" + b"\x00" * 20)
    (folder / "zeros.csv").write_bytes(b"a,b\n\x00\x00,1\n")
    rng = np.random.default_rng(0)
    rows = zip(rng.normal(size=200_000).round(4).tolist(), rng.integers(0, 9, 200_000).tolist(), strict=True)
    (folder / "many-rows.csv").write_text("x,k,outcome\n" + "".join(f"{x},{k},{k % 2}\n" for x, k in rows))


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
