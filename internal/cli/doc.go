// Package cli answers: what did the user ask for, and what is printed for the user in
// return? Each command is Options with Complete (read flags and cluster), Validate (say
// what is wrong with them) and Run. It decides nothing about pods: package drain does.
package cli
