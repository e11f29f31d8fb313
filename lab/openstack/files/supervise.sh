#!/bin/bash
# supervise.sh - runs the command of each line of its input, one after the other, and answers each with its exit status.
# When the input ends, as it does however the program at its other end has ended, all that up.sh started is ended.
cd "$(dirname "${BASH_SOURCE[0]}")" || exit
trap : PIPE # of an answer to a program that has ended; commands get the default back
while read -ra command; do
	env "${command[@]}" </dev/null >>supervise.log 2>&1 3>&- # 3 is the lock, which ends with this script
	echo $?
done
./down.sh -9 >>supervise.log 2>&1
