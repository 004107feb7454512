"""Cases of tests that need no cluster: functions marked with @case, which fail by an assertion. main() plays them all."""

CASES = []


def case(function):
    CASES.append(function)
    return function


def main():
    """The test's exit code."""
    failed = 0
    for function in CASES:
        try:
            function()
        except AssertionError as error:
            failed += 1
            print(f"{function.__name__}: FAILED at line {error.__traceback__.tb_next.tb_lineno}: {error}")
    print(f"test cases: {len(CASES)} | {len(CASES) - failed} passed | {failed} failed | 0 skipped")
    return 1 if failed or not CASES else 0
