# Tables that R's packages hold, called as: tables_of_r.R rows columns columns folder. See r_tables.py.
#
# Writes the numeric columns of each data frame and matrix that has at least so many rows, and a number of such columns
# between these two: folder/<number>.bin by column, NA as NaN, and a line of folder/index.txt with its package, name and
# size.

words <- commandArgs(trailingOnly = TRUE)
least_rows <- as.integer(words[1])
columns <- as.integer(words[2:3])
folder <- words[4]
options(warn = -1)

measured <- function(column) {
  is.numeric(column) && is.null(dim(column)) && !inherits(column, c("Date", "difftime", "POSIXct"))
}

table_of <- function(item, package) {
  place <- new.env()
  suppressMessages(data(list = item, package = package, envir = place))
  x <- get(item, envir = place)
  if (!is.data.frame(x) && !(is.matrix(x) && is.numeric(x))) return(NULL)
  x <- as.data.frame(x)
  as.matrix(x[, vapply(x, measured, TRUE), drop = FALSE])
}

index <- file(file.path(folder, "index.txt"), "w")
count <- 0
for (package in sort(.packages(all.available = TRUE))) {
  for (item in unique(sub(" .*", "", data(package = package)$results[, "Item"]))) {
    x <- tryCatch(table_of(item, package), error = function(error) NULL)
    if (is.null(x) || nrow(x) < least_rows || ncol(x) < columns[1] || ncol(x) > columns[2]) next
    count <- count + 1
    writeBin(as.double(x), file.path(folder, paste0(count, ".bin")))
    writeLines(paste(package, item, nrow(x), ncol(x)), index)
  }
}
close(index)
