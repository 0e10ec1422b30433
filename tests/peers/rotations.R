# Loadings of a questionnaire, rotated by R; called as: rotations.R "psych::bfi[, 1:25]" 5 [timed]
#
# Writes into the working folder "unrotated" and, for each rotation, its loadings and factor correlations (NAME and
# NAME-correlations); if timed, NAME-seconds too, processor seconds at the default tolerances.

suppressMessages(library(GPArotation))
words <- commandArgs(trailingOnly = TRUE)
q <- as.integer(words[2])
timed <- length(words) > 2
x <- as.matrix(eval(parse(text = words[1])))
A <- unclass(factanal(x[complete.cases(x), ], q, rotation = "none", control = list(lower = 1e-6))$loadings)
write <- function(m, name) {
  write.table(format(unclass(m), digits = 17), name, quote = FALSE, row.names = FALSE, col.names = FALSE)
}

save <- function(name, found) {
  write(found$loadings, name)
  U <- if (is.null(found$rotmat)) diag(q) else solve(found$rotmat)
  write(if (is.null(found$Phi)) U %*% t(U) else found$Phi, paste0(name, "-correlations"))
}

seconds <- function(work, least = 0.3) {
  work()
  start <- sum(proc.time()[1:2])
  count <- 0
  while (count == 0 || sum(proc.time()[1:2]) - start < least) {
    work()
    count <- count + 1
  }
  (sum(proc.time()[1:2]) - start) / count
}

# The projected gradient stays near 1e-7 to 1e-8, and the functions then warn.
gpa <- function(f, eps, ...) suppressWarnings(f(A, eps = eps, maxit = 1000, ...))
rotations <- list(
  varimax = function(eps) varimax(A, eps = eps),
  promax = function(eps) promax(varimax(A, eps = eps)$loadings),
  quartimax = function(eps) gpa(quartimax, eps),
  equamax = function(eps) gpa(cfT, eps, kappa = q / (2 * nrow(A))),
  oblimin = function(eps) gpa(oblimin, eps),
  "oblimin-kaiser" = function(eps) gpa(oblimin, eps, normalize = TRUE),
  "oblimin-gamma" = function(eps) gpa(oblimin, eps, Tmat = diag(q), -0.5),
  geomin = function(eps) gpa(geominQ, eps),
  "geomin-orthogonal" = function(eps) gpa(geominT, eps)
)
write(A, "unrotated")
for (name in names(rotations)) {
  save(name, rotations[[name]](if (name %in% c("varimax", "promax")) 1e-15 else 1e-9))
  if (timed) write(seconds(function() rotations[[name]](1e-5)), paste0(name, "-seconds"))
}
