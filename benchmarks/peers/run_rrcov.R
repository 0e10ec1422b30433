# ROBPCA of rrcov for tables 0.csv, 1.csv, ... in a folder: components, scores of rows and seconds, as CSV files.
suppressPackageStartupMessages(library(rrcov))
words <- commandArgs(trailingOnly = TRUE)
folder <- words[1]
count <- as.integer(words[2])
k <- as.integer(words[3])
seconds <- numeric(count)
for (i in seq_len(count) - 1) {
  x <- as.matrix(read.csv(file.path(folder, paste0(i, ".csv")), header = FALSE))
  seconds[i + 1] <- system.time(found <- PcaHubert(x, k = k, alpha = 0.75, mcd = FALSE))[["user.self"]]
  # A row is unusual if it is far from the plane, or far within it, compared with the cutoffs.
  scores <- pmax(found@od / found@cutoff.od, found@sd / found@cutoff.sd)
  write.table(found@loadings, file.path(folder, paste0(i, "_axes.csv")), sep = ",", row.names = FALSE, col.names = FALSE)
  write.table(scores, file.path(folder, paste0(i, "_scores.csv")), sep = ",", row.names = FALSE, col.names = FALSE)
}
write.table(seconds, file.path(folder, "seconds.csv"), sep = ",", row.names = FALSE, col.names = FALSE)
