"""Rows behind Spark Connect: the same answers, though the driver is in another process."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from probpca import PPCA

pytest.importorskip("pyspark", reason="Spark Connect needs pyspark")
for needed in ("pandas", "grpc", "grpc_status", "google.rpc", "zstandard"):
    pytest.importorskip(needed, reason=f"Spark Connect needs {needed}: pip install 'pyspark[connect]'")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs Java, and there is none on this machine", allow_module_level=True)

N, D, Q, STEPS = 600, 5, 2, 30
SCRIPT = f"""
import json, sys, warnings
import numpy as np
from pyspark.sql import SparkSession
from probpca import PPCA, ShapeError

spark = SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false").getOrCreate()
found = {{}}
for name, rows in np.load(sys.argv[1]).items():
    table = [[None if np.isnan(cell) else float(cell) for cell in row] for row in rows]
    frame = spark.createDataFrame(table, "a double, b double, c double, d double, e double").repartition(2)
    assert type(frame).__module__.startswith("pyspark.sql.connect")
    warnings.simplefilter("ignore")
    ppca = PPCA({Q}, random_state=0, tol=0, max_iter={STEPS}).fit(frame)
    scores = ppca.score_samples(frame).toPandas().to_numpy()
    found[name] = {{"mean": ppca.mean_.tolist(), "covariance": ppca.get_covariance().tolist(),
                   "names": list(ppca.feature_names_in_), "scores": sorted(scores[:, 0].tolist())}}
uneven = spark.createDataFrame([([1.0, 2.0, 3.0],), ([1.0, 2.0],)], "x array<double>")
try:
    PPCA(1).fit(uneven)
except ShapeError as error:
    found["uneven"] = str(error)
print(json.dumps(found))
spark.stop()
"""


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(17)
    rows = rng.standard_normal((N, Q)) @ rng.standard_normal((Q, D)) + 0.4 * rng.standard_normal((N, D)) + 2
    return {"complete": rows, "missing": np.where(rng.random((N, D)) < 0.2, np.nan, rows)}


@pytest.fixture(scope="module")
def found(tables, tmp_path_factory):
    """What a process of its own says: a session like this one goes with no other."""
    place = tmp_path_factory.mktemp("connect")
    np.savez(place / "tables.npz", **tables)
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    path = os.pathsep.join(part for part in (os.environ.get("PYTHONPATH"), *sys.path) if part)
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-c", SCRIPT, str(place / "tables.npz")],
        env={**ours, **python, "PYTHONPATH": path},
        cwd=place,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ["complete", "missing"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_equals_that_of_the_array(found, tables, name):
    wanted = PPCA(Q, random_state=0, tol=0, max_iter=STEPS).fit(tables[name])
    covariance = wanted.get_covariance()
    assert_allclose(found[name]["covariance"], covariance, rtol=1e-9, atol=1e-9 * np.abs(covariance).max())
    assert_allclose(found[name]["mean"], wanted.mean_, rtol=1e-9)
    assert_allclose(found[name]["scores"], np.sort(wanted.score_samples(tables[name])), rtol=1e-8, atol=1e-8)
    assert found[name]["names"] == list("abcde")


def test_vectors_of_different_lengths_are_refused(found):
    assert "every vector must have" in found["uneven"]
