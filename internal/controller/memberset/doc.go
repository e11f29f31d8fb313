// Package memberset answers: what makes a MemberSet be looked at again, what is read of it then, and how is what follows carried out?
//
// What follows, package memberset of the same name, which is pure, decides.
package memberset
