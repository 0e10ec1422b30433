"""Forecasts of real series by the default of LinearDynamicalSystem, beside simple and statistical forecasts.

``python benchmarks/forecasts.py`` needs statsmodels and R; ``make bench-dynamics`` runs it too. It writes a table and
the raw numbers to docs/benchmarks. The series are all of R's package datasets that have at least 40 steps, and tables
of statsmodels. ``--quick`` takes a few of them and prints only.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
import time
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
from complete import OUT

from probpca import LinearDynamicalSystem

STORE = OUT / "forecasts.json"
RUNNER = Path(__file__).parent / "peers" / "series_of_r.R"
MOST_STEPS, LEAST_STEPS, MOST_COLUMNS = 500, 40, 12
LOGS = {"AirPassengers", "UKgas", "JohnsonJohnson", "lynx", "EuStockMarkets", "macrodata"}
FEW = {"nottem", "Nile", "lynx", "UKgas"}
METHODS = ("naive", "drift", "seasonal naive", "ETS", "VAR", "ours")
TABLES = {  # of statsmodels: columns and steps of a season
    "interest_inflation": (["Dp", "R"], 4),
    "macrodata": (["realgdp", "realcons", "realinv", "cpi"], 4),
    "danish_data": (["lrm", "lry", "lpy", "ibo", "ide"], 4),
    "elnino": (None, 1),
    "elec_equip": (None, 12),
    "fertility": (None, 1),
}


def series_of_r():
    """Time series of R's package datasets, by name: values and steps of a season."""
    with tempfile.TemporaryDirectory() as folder:
        words = [shutil.which("Rscript"), str(RUNNER), folder]
        subprocess.run(words, capture_output=True, check=True)  # noqa: S603
        found = {}
        for number, line in enumerate((Path(folder) / "index.txt").read_text(encoding="utf-8").splitlines(), 1):
            name, frequency, n, d = line.split()
            values = np.fromfile(Path(folder) / f"{number}.bin").reshape(int(d), int(n)).T
            period = int(float(frequency)) if float(frequency) in (4, 12) else 1
            found[name] = np.where(np.isnan(values), np.nan, values), period  # R's NA is a NaN that warns
    return found


def tables_of_statsmodels():
    """Tables of statsmodels, by name: values and steps of a season."""
    for name, (columns, period) in TABLES.items():
        table = import_module(f"statsmodels.datasets.{name}").load_pandas().data
        if name == "fertility":  # countries are rows
            yield name, table.select_dtypes(float).dropna(axis=1, how="all").dropna().to_numpy().T[:, :MOST_COLUMNS], 1
            continue
        table = table.drop(columns="YEAR", errors="ignore") if columns is None else table[columns]
        yield name, table.to_numpy(dtype=np.float64), period


def panels():
    """All series that are long enough, each once."""
    found = series_of_r() | {name: (values, period) for name, values, period in tables_of_statsmodels()}
    seen = set()
    for name, (whole, period) in found.items():
        some = whole[-MOST_STEPS:, :MOST_COLUMNS]
        values = np.log(some) if name in LOGS else some
        if len(values) >= LEAST_STEPS and values.tobytes() not in seen and np.nanstd(values) > 0:
            seen.add(values.tobytes())
            yield name, values, period


def origins(n, period):
    """Horizon, and the numbers of rows that are known at each origin: half a horizon apart."""
    horizon = 12 if period == 12 else 8
    count = 4 if period == 12 else 6
    known = [n - horizon - k * (horizon // 2) for k in range(count)]
    return horizon, [k for k in known if k >= max(2 * period + 6, 20)]


def simple(y, period, horizon):
    """The last value, the line from the first to the last, and the last season."""
    steps = np.arange(horizon)
    slope = (y[-1] - y[0]) / (len(y) - 1)
    return {
        "naive": np.tile(y[-1], (horizon, 1)),
        "drift": y[-1] + (steps[:, None] + 1) * slope,
        "seasonal naive": y[len(y) - period + steps % period],
    }


def exponential_smoothing(y, period, horizon):
    """Additive errors, damped trend and additive season for each column: expectations and 95% intervals."""
    import pandas as pd  # noqa: PLC0415
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel  # noqa: PLC0415

    mean, low, high = [], [], []
    season = "add" if period > 1 and len(y) >= 2 * period + 5 else None
    for column in y.T:
        options = {"trend": "add", "damped_trend": True, "seasonal": season}
        model = ETSModel(pd.Series(column), seasonal_periods=period if season else None, **options)
        fitted = model.fit(disp=0, maxiter=200)
        ends = np.asarray(fitted.get_prediction(len(y), len(y) + horizon - 1).pred_int(0.05))
        mean.append(np.asarray(fitted.forecast(horizon)))
        low.append(ends[:, 0])
        high.append(ends[:, 1])
    return np.array(mean).T, np.array(low).T, np.array(high).T


def autoregression(y, period, horizon):
    """Vector autoregression in levels, its order by AIC; for one column an autoregression."""
    from statsmodels.tsa.api import VAR  # noqa: PLC0415
    from statsmodels.tsa.ar_model import ar_select_order  # noqa: PLC0415

    n, d = y.shape
    if d == 1:
        most = min(period + 1 if period > 1 else 10, n // 4)
        return ar_select_order(y[:, 0], most, ic="aic").model.fit().forecast(horizon)[:, None]
    fitted = VAR(y).fit(maxlags=max(min(period + 1, (n // d - 1) // 2), 1), ic="aic")
    return fitted.forecast(y[-max(fitted.k_ar, 1) :], horizon)


def filled(y):
    """Missing cells interpolated, for those who need complete columns."""
    y, t = y.copy(), np.arange(len(y))
    for column in y.T:
        seen = ~np.isnan(column)
        column[~seen] = np.interp(t[~seen], t[seen], column[seen])
    return y


def judge(values, period):
    """Relative errors of each method, coverage of 95% intervals, and seconds of a fit of ours."""
    horizon, known = origins(len(values), period)
    d = values.shape[1]
    squares = {method: np.zeros(d) for method in METHODS}
    held, seconds = {"ours": [], "ETS": []}, []
    for k in known:
        past, future = values[:k], values[k : k + horizon]
        complete, seen = filled(past), ~np.isnan(future)
        found = simple(complete, period, horizon)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["ETS"], *ends = exponential_smoothing(complete, period, horizon)
            held["ETS"].append(((ends[0] <= future) & (future <= ends[1]))[seen])
            try:
                found["VAR"] = autoregression(complete, period, horizon)
            except (np.linalg.LinAlgError, ValueError):
                found["VAR"] = found["naive"]
        start = time.process_time()
        ahead = LinearDynamicalSystem(seasonal_periods=period).fit(past).forecast(horizon)
        seconds.append(time.process_time() - start)
        found["ours"] = ahead.mean
        low, high = ahead.interval(0.95)
        held["ours"].append(((low <= future) & (future <= high))[seen])
        for method in METHODS:
            squares[method] += np.nansum(np.square(found[method] - future), axis=0)
    ratio = {m: float(np.exp(np.mean(np.log(squares[m] / squares["naive"]) / 2))) for m in METHODS}
    cover = {m: float(np.concatenate(parts).mean()) for m, parts in held.items()}
    return {"n": len(values), "d": d, "period": period, "error": ratio, "cover": cover, "seconds": min(seconds)}


def report(store):
    """Table of the docs."""
    lines = ["| series | steps x columns | season | " + " | ".join(METHODS[1:]) + " | 95% held | seconds |"]
    lines += ["|---|---|---|" + "---|" * (len(METHODS) + 1)]
    for name, one in store.items():
        errors = " | ".join(f"{one['error'][m]:.3f}" for m in METHODS[1:])
        size = f"{one['n']} x {one['d']} | {one['period'] if one['period'] > 1 else '-'}"
        lines.append(f"| {name} | {size} | {errors} | {one['cover']['ours']:.0%} | {one['seconds']:.2f} |")
    mean = {m: np.exp(np.mean([np.log(one["error"][m]) for one in store.values()])) for m in METHODS[1:]}
    cover = {m: np.mean([one["cover"][m] for one in store.values()]) for m in ("ours", "ETS")}
    told = " | ".join(f"**{mean[m]:.3f}**" for m in METHODS[1:])
    lines.append(f"| **geometric mean** | | | {told} | **{cover['ours']:.1%}** | |")
    lines += ["", f"Intervals of ETS held {cover['ETS']:.1%} on average."]
    return "\n".join(lines) + "\n"


def main(words=None):
    """Judge all series, or a few of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few series, printed and not stored")
    parser.add_argument("--report", action="store_true", help="the table of the stored numbers")
    options = parser.parse_args(words)
    store = json.loads(STORE.read_text(encoding="utf-8")) if options.report else {}
    if not options.report:
        for name, values, period in panels():
            if not options.quick or name in FEW:
                store[name] = judge(values, period)
                print(name, store[name], flush=True)
    text = report(store)
    if not options.quick:
        STORE.write_text(json.dumps(store, indent=1) + "\n", encoding="utf-8")
        (OUT / "forecasts.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
