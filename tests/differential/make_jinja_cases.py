#!/usr/bin/env python3
"""Writes tests/data/jinja/*.json: small templates for every construct, with what jinja2 3.1.6 renders in the
environment of transformers 5.24. `python3 tests/differential/make_jinja_cases.py [--check BINARY]`: with --check nothing
is written, and the cases are rendered by `BINARY template FOLDER --jsonl FILE` and compared."""
import argparse
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
from transformers.utils.chat_template_utils import _compile_jinja_template  # noqa: E402

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from jinja_cases import CASES, VARIABLES  # noqa: E402


def expected(template, variables):
    try:
        return {"text": _compile_jinja_template(template).render(**variables)}
    except Exception as e:  # noqa: BLE001
        return {"error": f"{type(e).__name__}: {e}"[:200]}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--check")
    a = ap.parse_args()
    bad = total = 0
    for group, templates in CASES.items():
        cases = []
        for t in templates:
            template, more = t if isinstance(t, tuple) else (t, {})
            variables = json.loads(json.dumps({**VARIABLES, **more}))
            cases.append({"template": template, **({"variables": more} if more else {}), **expected(template, variables)})
        if a.check:
            from templates import ours
            for case in cases:
                total += 1
                (text, error), = ours(a.check, case["template"], [{**VARIABLES, **case.get("variables", {})}])
                if text != case.get("text") or "CRASH" in (error or ""):
                    bad += 1
                    print(f"DIFF {group}: {case['template']!r}\n  reference: {case.get('text', case.get('error'))!r}\n"
                          f"  lockstep:  {error if text is None else repr(text)}")
            continue
        out = HERE.parent / "data" / "jinja" / f"{group}.json"
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({"variables": VARIABLES, "cases": cases}, indent=1, ensure_ascii=True) + "\n")
    if a.check:
        print(f"{total} cases, {bad} different")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
