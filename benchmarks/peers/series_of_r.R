# Time series that R's package datasets holds, called as: series_of_r.R folder. See forecasts.py.
#
# Writes folder/<number>.bin by column, NA as NaN, and a line of folder/index.txt with name, steps a year and size.

folder <- commandArgs(trailingOnly = TRUE)[1]
index <- file(file.path(folder, "index.txt"), "w")
count <- 0
for (item in unique(sub(" .*", "", data(package = "datasets")$results[, "Item"]))) {
  x <- tryCatch(get(item, envir = asNamespace("datasets")), error = function(error) NULL)
  if (is.null(x)) x <- tryCatch(get(item), error = function(error) NULL)
  if (!inherits(x, "ts") || !is.numeric(x)) next
  frequency <- frequency(x)
  x <- as.matrix(x)
  count <- count + 1
  writeBin(as.double(x), file.path(folder, paste0(count, ".bin")))
  cat(item, frequency, nrow(x), ncol(x), "\n", file = index)
}
close(index)
