// Package replacement answers: what is done next for each ReplacementRequest?
//
// It reads what a step rests on, has package replacement decide, and carries that out. Nothing is remembered in the process: what is begun
// is in the request's status, and that a member is being replaced in its policy's.
package replacement
