// Package fdbsim answers: what would a FoundationDB cluster do, and what would it say of that meanwhile?
//
// It stands behind the port to fdbcli and takes the same commands. Its status documents have the shape of the real ones, and lie and lag as those
// were seen to do: every change costs a recovery, a recovery makes the document incomplete and takes the role storage from every process for some
// seconds, what the data is like is not known for longer, dead processes are gone from the document within seconds, and while a zone is under
// maintenance all copies seem to be there. What is true beside that is in truth.go. Time passes only by Advance.
package fdbsim
