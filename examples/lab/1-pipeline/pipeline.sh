# Prints the three most frequent words of /in/text.txt with their counts, the most frequent one first.
# To do: `tr` is to run on AArch64, both `sort` on RISC-V, and `uniq` and `head` on x86-64.
tr -cs a-z '\n' </in/text.txt | sort | uniq -c | sort -rn | head -n 3
