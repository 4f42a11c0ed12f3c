"""`lockstep quantize` beside mlx_lm.convert (quantize.py), over all goldens and over wider checkpoints of their families."""
import pytest

import quantize

GOLDENS = quantize.goldens()


def name_of(folder):
    return f"{folder.parent.name}/{folder.name}"


def test_there_are_goldens():
    assert len(GOLDENS) > 200


@pytest.mark.parametrize("golden", GOLDENS, ids=name_of)
def test_golden(golden):
    found = [quantize.compare(golden, *form) for form in quantize.forms_of(golden)]
    if all(differences is None for differences in found):
        pytest.skip("mlx-lm does not convert it")
    assert not [line for differences in found for line in differences or []]


@pytest.mark.parametrize("golden", [g for g in GOLDENS if g.parent.name == "mlx"], ids=name_of)
def test_wider(golden, tmp_path):
    """Half of them have 32 columns: with 64 and 128 the matrices that a family keeps finer have groups of 64."""
    tried = 0
    for factor in (2, 4):
        if not quantize.wider(golden, factor, tmp_path):
            continue
        for form in (("affine", 4, 32, None), ("mxfp4", 4, 32, None), ("affine", 4, 64, "mixed_3_6")):
            differences = quantize.compare(tmp_path, *form)
            assert not differences
            tried += differences is not None
    if not tried:
        pytest.skip("its config does not widen, or mlx-lm does not convert it")
