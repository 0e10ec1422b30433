# pcaMethods' kEstimate, called as: run_kestimate.R tables.npy n largest out. The tables are stacked, n rows each.
#
# Cross-validation of cells for missing value estimation by its ppca; writes one number a line to out,
# 0 where it fails.

suppressMessages(library(pcaMethods))

read_table <- function(path) {
  file <- file(path, "rb")
  on.exit(close(file))
  invisible(readBin(file, "raw", 8))
  header <- readChar(file, readBin(file, "integer", size = 2, signed = FALSE))
  shape <- as.integer(strsplit(sub(".*\\((.*)\\).*", "\\1", header), ",")[[1]])
  matrix(readBin(file, "double", prod(shape)), shape[1], shape[2], byrow = TRUE)
}

words <- commandArgs(trailingOnly = TRUE)
x <- read_table(words[1])
x[is.nan(x)] <- NA
n <- as.integer(words[2])
largest <- as.integer(words[3])
set.seed(0)
estimate <- function(i) {
  rows <- x[(i - 1) * n + seq_len(n), ]
  error <- if (anyNA(rows)) "nrmsep" else "q2"
  settings <- list(rows, method = "ppca", evalPcs = seq_len(largest), segs = 5, nruncv = 1, em = error)
  invisible(capture.output(
    found <- tryCatch(
      suppressWarnings(do.call(kEstimate, c(settings, allVariables = TRUE, verbose = FALSE)))$bestNPcs,
      error = function(e) 0 # some tables it cannot do
    )
  ))
  as.numeric(found)
}
writeLines(as.character(vapply(seq_len(nrow(x) %/% n), estimate, 0)), words[4])
