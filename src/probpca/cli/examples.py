"""What the help says beside options."""

from __future__ import annotations

PROGRAM = """\
Probabilistic PCA of tables in files: principal components, missing cells filled in,
outliers, forecasts, each with its uncertainty. Columns of numbers are found, others
are kept as labels; a cell that is empty or NA is missing."""

ABOUT = {
    "fit": "fit a model to a table and say what it found",
    "impute": "fill in the missing cells of a table",
    "transform": "the place of each row on the components",
    "score": "the log-likelihood of each row",
    "outliers": "the rows that are hard to believe, and the cells to blame",
    "sample": "draw new rows from a model",
    "select": "ask several criteria how many components there are",
    "forecast": "what comes next in a table whose rows are steps of time",
    "report": "write a report on a table as one HTML page",
    "explorer": "write an HTML page on which to move along the components",
    "demo": "run all of it on a table of births in 219 countries",
}


def _examples(*lines: str) -> str:
    return "\n".join(["examples:", *(f"  {line}" for line in lines)])


EXAMPLES = {
    "probpca": _examples(
        "probpca fit table.csv",
        "probpca impute model.npz table.csv --out completed.csv",
        "probpca outliers model.npz table.csv",
        "probpca report model.npz table.csv",
        "probpca COMMAND --help",
    )
    + "\n\nexit codes: 0 done, 1 bad data or file, 2 bad usage, 130 interrupted",
    "fit": _examples(
        "probpca fit table.csv",
        "probpca fit table.csv --components 0.95 --standardize",
        "probpca fit table.parquet --components cv --id customer --out customers.npz",
        "probpca fit table.csv --bayesian --exclude year rank",
    ),
    "impute": _examples(
        "probpca impute model.npz table.csv",
        "probpca impute model.npz table.csv --out completed.csv",
        "probpca impute model.npz table.csv --intervals --level 0.9 --out completed.parquet",
    )
    + "\n\nWithout --out, the first cells that were filled in are shown with their intervals.",
    "transform": _examples(
        "probpca transform model.npz table.csv",
        "probpca transform model.npz table.csv --out components.csv",
    ),
    "score": _examples(
        "probpca score model.npz table.csv",
        "probpca score model.npz table.csv --out - | sort -t, -k2 -g | head",
    ),
    "outliers": _examples(
        "probpca outliers model.npz table.csv",
        "probpca outliers model.npz table.csv --top 50 --out suspects.csv",
        "probpca outliers model.npz table.csv --out all.parquet",
    )
    + """

D2 is the squared distance of a row from the model, T2 the part of it along the components and
residual the part off them; p_value is the probability of a D2 at least as large, log10_p its
logarithm. Of each row three cells are named, with the number of standard deviations between
them and what the other cells let expect.""",
    "sample": _examples("probpca sample model.npz", "probpca sample model.npz -n 1000 --seed 7 --out new.csv"),
    "select": _examples(
        "probpca select table.csv",
        "probpca select table.csv --criteria bic cv --max-components 10 --plot choices.png",
    ),
    "forecast": _examples(
        "probpca forecast series.csv --steps 24",
        "probpca forecast series.csv --steps 12 --time month --components 3 --out next_year.csv",
    ),
    "report": _examples("probpca report model.npz table.csv", "probpca report model.npz table.csv --out page.html"),
    "explorer": _examples(
        "probpca explorer model.npz table.csv",
        "probpca explorer model.npz digits.npy --image-shape 8 8 --out digits.html",
    ),
    "demo": _examples("probpca demo", "probpca demo --out demo"),
}
