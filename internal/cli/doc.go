// Package cli answers: what did the person at the keyboard ask for, and what are they
// told? Each command is Options with Complete (read flags and cluster), Validate (say
// what is wrong with them) and Run. It decides nothing about pods: package drain does.
package cli
