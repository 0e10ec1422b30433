# Factor analysis in R, called as: run_factor_analysis.R <method> table.npy q seconds out. See factor_models.py.
#
# factanal: stats, with the floor 1e-6; psych: fa(fm = "ml"), whose floor is always 0.005; lavaan: an unrestricted factor
# model of the observed cells by its defaults, with its saturated and its baseline model; lavaan_alone: without these and
# without standard errors. Fits are repeated for some seconds of processor time. Writes out.json (processor seconds of
# one fit, version, iterations) and out.bin (loadings by column, then noise variances, then means).

read_table <- function(path) {
  file <- file(path, "rb")
  on.exit(close(file))
  invisible(readBin(file, "raw", 8))
  header <- readChar(file, readBin(file, "integer", size = 2, signed = FALSE))
  shape <- as.integer(strsplit(sub(".*\\((.*)\\).*", "\\1", header), ",")[[1]])
  matrix(readBin(file, "double", prod(shape)), shape[1], shape[2], byrow = TRUE)
}

by_factanal <- function(x, q) {
  fit <- factanal(x, q, rotation = "none", control = list(lower = 1e-6, opt = list(maxit = 10000)))
  list(fit$loadings, fit$uniquenesses, rep(0, ncol(x)), fit$criteria[["counts.function"]])
}

by_psych <- function(x, q) {
  fit <- psych::fa(x, q, rotate = "none", fm = "ml", scores = "none", control = list(maxit = 10000))
  list(fit$loadings, fit$uniquenesses, rep(0, ncol(x)), 0)
}

# Loadings of uncorrelated factors are determined if some feature does not load on any later factor, for each factor but
# the last. These features are taken from all parts of the table.
unrestricted <- function(d, q) {
  first <- 1 + floor((seq_len(q) - 1) * d / q)
  left_out <- lapply(seq_len(q), function(k) first[seq_len(k - 1)])
  free <- sapply(seq_len(q), function(k) paste0("V", setdiff(seq_len(d), left_out[[k]]), collapse = " + "))
  pairs <- if (q > 1) combn(q, 2) else matrix(0, 2, 0)
  c(
    paste0("f", seq_len(q), " =~ NA*", free),
    paste0("f", seq_len(q), " ~~ 1*f", seq_len(q)),
    sprintf("f%d ~~ 0*f%d", pairs[1, ], pairs[2, ])
  )
}

by_lavaan <- function(x, q, ...) {
  data <- as.data.frame(x)
  names(data) <- paste0("V", seq_len(ncol(x)))
  model <- unrestricted(ncol(x), q)
  fit <- lavaan::lavaan(
    model, data, missing = "fiml", meanstructure = TRUE, int.ov.free = TRUE, auto.var = TRUE, ...
  )
  found <- lavaan::lavInspect(fit, "est")
  list(found$lambda, diag(found$theta), found$nu, lavaan::lavInspect(fit, "iterations"))
}

words <- commandArgs(trailingOnly = TRUE)
method <- words[1]
x <- read_table(words[2])
x[is.nan(x)] <- NA
q <- as.integer(words[3])
least <- as.numeric(words[4])
fits <- list(
  factanal = function() by_factanal(x, q),
  psych = function() by_psych(x, q),
  lavaan = function() by_lavaan(x, q),
  lavaan_alone = function() by_lavaan(x, q, se = "none", test = "none", h1 = FALSE, baseline = FALSE)
)
work <- function() suppressMessages(suppressWarnings(fits[[method]]()))
if (method != "factanal") invisible(loadNamespace(sub("_.*", "", method)))
spent <- function() sum(proc.time()[1:2])
work() # compiles what has to be compiled
start <- spent()
count <- 0
while (count == 0 || spent() - start < least) {
  found <- work()
  count <- count + 1
}
seconds <- (spent() - start) / count
package <- if (method == "factanal") "stats" else sub("_.*", "", method)
version <- paste(package, packageVersion(package))
form <- '{"seconds": %.6f, "version": "%s", "iterations": %d}'
cat(sprintf(form, seconds, version, as.integer(found[[4]])), file = paste0(words[5], ".json"))
writeBin(as.double(c(found[[1]], found[[2]], found[[3]])), file(paste0(words[5], ".bin"), "wb"))
