package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// NodeLockName is the name of the lock that holders of a role of a policy have on their nodes: of an annotation PREFIX/NAME. It is the same for as long
// as the policy has its name, and has 63 characters at most.
func NodeLockName(policy Key, role string) string {
	const longest = 40
	if len(role) > longest {
		role = role[:longest-lockHash-1] + "." + hashOf(role)
	}
	return lockStem + role + "." + hashOf(policy.String())
}

// NodeLockOwner is what the name of a lock of a policy's ends with, and no other policy's.
func NodeLockOwner(policy Key) string { return hashOf(policy.String()) }

// LockOwner returns the NodeLockOwner of the policy whose lock an annotation is by its name, "" where it is no policy's.
func LockOwner(annotation string) string {
	_, name, _ := strings.Cut(annotation, "/")
	rest, ours := strings.CutPrefix(name, lockStem)
	dot := strings.LastIndexByte(rest, '.')
	if !ours || dot < 1 || len(rest)-dot-1 != lockHash || strings.Trim(rest[dot+1:], "0123456789abcdef") != "" {
		return ""
	}
	return rest[dot+1:]
}

const (
	lockStem = "usher."
	lockHash = 10
)

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:lockHash]
}

// Locks are the node's annotations whose keys have the prefix, whoever has set them, sorted.
func (n *Node) Locks(prefix string) []string {
	var found []string
	for key := range n.Annotations {
		if strings.HasPrefix(key, prefix+"/") {
			found = append(found, key)
		}
	}
	for _, key := range n.LongAnnotations {
		if strings.HasPrefix(key, prefix+"/") {
			found = append(found, key)
		}
	}
	slices.Sort(found)
	return found
}
