"""Mutants that the tests nearest to them do not notice, decided together: a whole program of tests is run once with all of them
in their places instead of once for each. The cases that fail are run again with each mutant by itself, which says whose they
are; those that were noticed leave the group, and the rest is run again, until nothing fails any more. First each file is
compiled alone, then, of those that are left, all that is made of their files is compiled anew, and that decides. An error that
hides another within a group can only make the share of those that are noticed look smaller.
"""
import sys

from mutate_build import COMPILER, Broken, case_filter, failed_cases, files_filter, program_of


def groups_of(mutants):
    """Lists of mutants that the same tests cover, one of each file; a header, which is in most objects, stays by itself."""
    groups = []
    for one in mutants:
        fits = (group for group in groups if group[0].tests == one.tests and one.file not in [other.file for other in group]
                and not any(other.file.endswith(".h") for other in (one, group[0])))
        group = next(fits, None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    return groups


def decided(bench, members):
    """(mutant, what noticed it) of a group; `members`: (mutant, its file's text, the text with the error)."""
    found = {}
    for alone in (True, False):
        for test in members[0][0].tests:
            left = [member for member in members if not found.get(member[0].place())]
            while left:
                noticed = seen_by(bench, test, left, alone)
                found.update(noticed)
                if not noticed:
                    break
                left = [member for member in left if member[0].place() not in noticed]
    return [(mutant, found.get(mutant.place(), "")) for mutant, _, _ in members]


def seen_by(bench, test, members, alone):
    """What noticed which of the members, by their places: all of those of whom one run of the program can tell."""
    program = program_of(test)
    if alone:
        made = bench.singles([(mutant.file, after) for mutant, _, after in members])
        if not made:
            return {}
    elif len(members) == 1:
        mutant, _, after = members[0]
        return by_place([(mutant, bench.whole(mutant.file, after, [test]))])
    else:
        made = bench.objects_with(program, {mutant.file: after for mutant, _, after in members})
    if made is None:  # one of them is no program
        refused = [(mutant, bench.objects_with(program, {mutant.file: after})) for mutant, _, after in members]
        return {mutant.place(): COMPILER for mutant, objects in refused if objects is None}
    binary = bench.build.link(program, made, f"mutant_{bench.number}_{program}", bench.log)
    ended = bench.run_tests(program, binary, files_filter(test), bench.build.limit_s(program, ()))
    if ended == 0:
        return {}
    failed = failed_cases(bench.output())
    if ended is None or not failed:  # it says nothing of whose fault it was
        return {} if alone else by_place([(mutant, bench.whole(mutant.file, after, [test])) for mutant, _, after in members])
    noticed = by_place([(mutant, bench.of_cases(program, mutant.file, before, after, failed))
                        for mutant, before, after in members])
    if alone or not noticed and bench.run_tests(program, binary, [case_filter(*failed)]) == 0:
        return noticed  # else the machine was too busy for them
    if not noticed:  # what the others of its batch have inlined is not in a source that is compiled alone
        noticed = by_place([(mutant, tried_whole(bench, test, mutant, after, failed)) for mutant, _, after in members])
    if not noticed:
        print(f"{program}: fails with {len(members)} mutants together and with none alone: {', '.join(failed)}",
              file=sys.stderr)
    return noticed


def tried_whole(bench, test, mutant, after, cases):
    try:
        return bench.whole(mutant.file, after, [test], cases)
    except Broken as error:
        print(f"{mutant.place()}: {error}", file=sys.stderr)
        return ""


def by_place(rows):
    return {mutant.place(): found for mutant, found in rows if found}
