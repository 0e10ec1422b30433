"""One cluster, and one Spark session at a time, for all tests of this folder."""

import os
import shutil
import sys
import tempfile

import pytest


@pytest.fixture(scope="session")
def client():
    """A Dask cluster of two processes."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def spark_builder():
    """Builder of a Spark session with two executors of one core each, in processes of their own."""
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java, and there is none on this machine")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as place:
        builder = sql.SparkSession.builder.master("local-cluster[2,1,1024]").appName("probpca")
        settings = {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "4",
            "spark.local.dir": place,
            "spark.sql.warehouse.dir": place,
            "spark.executor.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        yield builder
        builder.getOrCreate().stop()


@pytest.fixture(scope="module")
def spark(spark_builder):
    """The Spark session of all tests, or a new one if the tests of another file have stopped it."""
    session = spark_builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
