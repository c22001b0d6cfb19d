#!/bin/sh
# What the command lines of `lines` find in their directory. Everything in it is the same every time.
set -e
seq 1 2000 | awk '{ print ($1 * 7919) % 2003, "word" ($1 * 31) % 97 }' > pairs.txt
printf 'apple,3,red\nbanana,12,yellow\ncherry,7,red\ndate,1,brown\nelder,25,black\n' > fruit.csv
printf 'The quick brown fox\njumps over\nthe lazy dog.\n\nPack my box with\nfive dozen liquor jugs.\n' > text.txt
printf '{"name":"refrain","tags":["record","replay"],"size":{"x":3,"y":[1,2,3]}}\n' > data.json
mkdir -p tree/one/two tree/three
printf 'alpha\n' > tree/a.txt
printf 'beta\n' > tree/one/b.txt
printf 'gamma\n' > tree/one/two/c.log
printf 'delta\n' > tree/three/d.txt
ln -s ../a.txt tree/three/link
touch -d '2020-02-02 02:02:02 UTC' tree/a.txt tree/one/b.txt tree/one/two/c.log tree/three/d.txt
printf 'one\ntwo\nthree\nfour\n' > old.txt
printf 'one\n2\nthree\nfour\nfive\n' > new.txt
cat > hello.c <<'C'
#include <stdio.h>
int main(int count, char **arguments) { printf("hello from C, %d arguments\n", count - 1); return count > 2; }
C
cat > Makefile <<'M'
all: hello upper.txt
hello: hello.c
	gcc -O1 -o hello hello.c
upper.txt: text.txt
	tr a-z A-Z < text.txt > upper.txt
M
cat > greet.sh <<'S'
#!/bin/sh
name=${1:-world}
echo "hello, $name, from $0"
exit 3
S
cat > bash.sh <<'S'
#!/usr/bin/env bash
set -eu
declare -A seen
while read -r number word; do seen[$word]=$((${seen[$word]:-0} + number)); done < pairs.txt
for word in "${!seen[@]}"; do echo "$word ${seen[$word]}"; done | sort | head -5
diff <(sort old.txt) <(sort new.txt) || echo "they differ: $?"
trap 'echo leaving' EXIT
( exit 4 ) || echo "a subshell said $?"
S
cat > jobs.sh <<'S'
#!/bin/sh
trap 'echo a child ended > /dev/null' CHLD
for n in 1 2 3; do ( echo "job $n"; exit $n ) > job.$n & eval "job$n=$!"; done
for n in 1 2 3; do eval "wait \$job$n"; echo "job $n ended with $?"; cat job.$n; done
S
cat > count.py <<'S'
#!/usr/bin/python3
import collections, subprocess, sys
words = collections.Counter(line.split()[1] for line in open("pairs.txt"))
print(words.most_common(3))
print(subprocess.run(["./greet.sh", "python"], capture_output=True, text=True))
sys.exit(2)
S
cat > report.pl <<'S'
#!/usr/bin/perl -w
use strict;
my %sum;
open my $file, '<', 'pairs.txt' or die;
while (<$file>) { my ($n, $w) = split; $sum{$w} += $n; }
printf "%s %d\n", $_, $sum{$_} for (sort keys %sum)[0 .. 4];
print `./greet.sh perl`, $? >> 8, "\n";
S
cat > table.awk <<'S'
#!/usr/bin/awk -f
BEGIN { FS = "," }
{ sum += $2; printf "%-8s|%4d|%s\n", $1, $2, $3 }
END { print "sum", sum }
S
printf 'echo "no interpreter is named; $# arguments"\n' > plain
printf '#!./greet.sh nested\n' > nested
chmod +x greet.sh bash.sh jobs.sh count.py report.pl table.awk plain nested
