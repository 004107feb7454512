#!/usr/bin/env python3
"""Prints engine/data/tokenizer/unicode_additions.h: code points that the `tokenizers` package counts to a class and that Python's
own (older) Unicode tables do not. Run with a Python whose unicodedata is at most as new as the oldest PCRE2 in use
(Python 3.11 and PCRE2 10.42 both hold Unicode 14).

    python make_unicode_additions.py > ../../engine/data/tokenizer/unicode_additions.h
"""
import unicodedata

import tokenizers
from tokenizers import Regex, pre_tokenizers

CLASSES = ["L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "N"]
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
TEXT = "".join(map(chr, POINTS))


def reference_class(name):
    outside = pre_tokenizers.Split(Regex(r"\p{%s}+" % name), "removed").pre_tokenize_str(TEXT)
    return set(POINTS) - {ord(c) for piece, _ in outside for c in piece}


def ranges(points):
    found = []
    for c in sorted(points):
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def main():
    print(f"""// Code points that Unicode 15 and 16 added to the classes which pre-tokenizer patterns name. The reference
// implementation (tokenizers {tokenizers.__version__}) knows them; PCRE2 10.42 stops at Unicode {unicodedata.unidata_version}.
// Written by tests/parity/make_unicode_additions.py; do not edit.
#pragma once

#include <cstdint>

namespace longhaul {{

struct CodePointRange {{
  std::uint32_t first, last;
}};
""")
    for name in CLASSES:
        theirs = reference_class(name)
        ours = {c for c in POINTS if unicodedata.category(chr(c)).startswith(name)}
        assert not ours - theirs, f"{name}: the reference misses {len(ours - theirs)} code points"
        items = [f"{{0x{a:X}, 0x{b:X}}}" for a, b in ranges(theirs - ours)] or ["{1, 0}"]
        print(f"inline constexpr CodePointRange added_{name}[] = {{")
        line = "   "
        for i, item in enumerate(items):
            word = f" {item}" + ("," if i + 1 < len(items) else "};")
            if len(line) + len(word) > 120:
                print(line)
                line = "   "
            line += word
        print(line)
    print("\n}  // namespace longhaul")


main()
