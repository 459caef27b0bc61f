#!/bin/sh
# The name of each file, and whether anything was called in it.
for file; do
    echo "$file $(bcftools view -H "$file" | awk 'END { print (NR > 0) ? "calls" : "none" }')"
done | sort
