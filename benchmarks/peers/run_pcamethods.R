# R's pcaMethods, called as: run_pcamethods.R <ppca|bpca> table.npy q effort out. See runner.py for what it writes.
#
# ppca: EM with a posterior in which scores and missing cells are independent; bpca: variational Bayes.
# Both give axes without the noise variance; the mean is that of each column.

suppressMessages(library(pcaMethods))

read_table <- function(path) {
  file <- file(path, "rb")
  on.exit(close(file))
  invisible(readBin(file, "raw", 8))
  header <- readChar(file, readBin(file, "integer", size = 2, signed = FALSE))
  shape <- as.integer(strsplit(sub(".*\\((.*)\\).*", "\\1", header), ",")[[1]])
  matrix(readBin(file, "double", prod(shape)), shape[1], shape[2], byrow = TRUE)
}

megabytes <- function(kind) {
  line <- grep(kind, readLines("/proc/self/status"), value = TRUE)
  as.numeric(gsub("[^0-9]", "", line)) / 1024
}

words <- commandArgs(trailingOnly = TRUE)
method <- words[1]
x <- read_table(words[2])
x[is.nan(x)] <- NA
q <- as.integer(words[3])
effort <- as.integer(words[4])
set.seed(0)
limits <- switch(method, ppca = list(maxIterations = effort), bpca = list(maxSteps = effort))
settings <- c(list(x, method = method, nPcs = q, completeObs = FALSE, threshold = 0), limits)
before <- megabytes("VmRSS")
seconds <- system.time(fit <- suppressWarnings(do.call(pca, settings)))[["elapsed"]]
blas <- basename(extSoftVersion()[["BLAS"]])
version <- paste0(packageVersion("pcaMethods"), ", ", blas)
form <- '{"seconds": %f, "iterations": %d, "memory": %f, "version": "%s", "noise_variance": null}'
cat(sprintf(form, seconds, effort, megabytes("VmHWM") - before, version), file = paste0(words[5], ".json"))
writeBin(c(fit@center, fit@loadings), file(paste0(words[5], ".bin"), "wb"))
