// Package status answers: what does a FoundationDB cluster's status document say, and what may be built on it?
//
// The document is incomplete for seconds after every recovery, and recoveries are frequent. What is absent is not known: it is neither zero nor
// empty nor fine. So whoever asks for what follows from a document gets a sentence that says what is missing, or "" where nothing is.
package status
