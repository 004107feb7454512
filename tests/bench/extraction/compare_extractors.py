#!/usr/bin/env python3
"""Main-content extraction of this program beside trafilatura, resiliparse and readability-lxml (PyPI), same pages, same score,
one run. What readability gives is HTML: resiliparse makes text of it, and the time is that of both.

    python3 tests/bench/extraction/compare_extractors.py --pages ../shared/data/html --ours texts.json

`texts.json`: {page: text}, as `LONGHAUL_WRITE_TEXTS=texts.json build/release/bin/extraction_f1` writes it.
"""
import argparse
import gzip
import json
import pathlib
import re
import time
from collections import Counter


def shingles(text):
    words = re.findall(r"\w+", text or "")
    return Counter(tuple(words[i:i + 4]) for i in range(max(1, len(words) - 3))) if words else Counter()


def scores(truth, found):
    """Precision and recall of 4-word shingles, None where they have no meaning (shingle_score.h)."""
    expected, given = shingles(truth), shingles(found)
    hits = sum((expected & given).values())
    wrong, missed = sum(given.values()) - hits, sum(expected.values()) - hits
    if wrong == 0 and missed == 0:
        return (1.0 if given else None), (1.0 if expected else None)
    return (hits / (hits + wrong) if hits + wrong else None), (hits / (hits + missed) if hits + missed else None)


def mean(values):
    known = [value for value in values if value is not None]
    return sum(known) / len(known)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", required=True, type=pathlib.Path)
    parser.add_argument("--ours", required=True, type=pathlib.Path)
    options = parser.parse_args()
    from resiliparse.extract.html2text import extract_plain_text
    import readability
    import trafilatura
    truth = json.loads((options.pages / "ground-truth.json").read_text())
    ours = json.loads(options.ours.read_text())
    html = {key: gzip.open(options.pages / "html" / f"{key}.html.gz", "rt", encoding="utf-8", errors="replace").read() for key in truth}
    extractors = {
        "longhaul": lambda key: ours[key],
        "trafilatura": lambda key: trafilatura.extract(html[key], include_comments=False),
        "trafilatura, precision": lambda key: trafilatura.extract(html[key], include_comments=False, favor_precision=True),
        "resiliparse, main content": lambda key: extract_plain_text(html[key], main_content=True),
        "readability-lxml": lambda key: extract_plain_text(readability.Document(html[key]).summary()),
    }
    megabytes = sum(len(page.encode()) for page in html.values()) / 1e6
    for name, extract in extractors.items():
        start = time.process_time()
        texts = {key: extract(key) for key in truth}
        seconds = time.process_time() - start
        pairs = [scores(truth[key]["articleBody"], texts[key]) for key in truth]
        precision, recall = mean(p for p, _ in pairs), mean(r for _, r in pairs)
        print(f"{name:28} F1 {2 * precision * recall / (precision + recall):.3f}  precision {precision:.3f}  recall {recall:.3f}" + (
            f"  {seconds:.1f} s, {megabytes / seconds:.1f} MB/s" if name != "longhaul" else ""))


if __name__ == "__main__":
    main()
