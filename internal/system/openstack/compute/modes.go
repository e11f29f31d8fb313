package compute

import (
	"cmp"
	"fmt"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// mode is what is done with a server in its state. Where the policy's object has none, it is the schema's default.
func (l *Look) mode(s *Server) v1alpha1.ServerMode {
	switch m := &l.Modes; s.State {
	case "active":
		return cmp.Or(m.Active, v1alpha1.ServerLiveMigrate)
	case "paused":
		return cmp.Or(m.Paused, v1alpha1.ServerLiveMigrate)
	case "stopped":
		return cmp.Or(m.Stopped, v1alpha1.ServerColdMigrate)
	case "suspended":
		return cmp.Or(m.Suspended, v1alpha1.ServerBlock)
	case "error":
		return cmp.Or(m.Error, v1alpha1.ServerBlock)
	case "resized":
		return cmp.Or(m.Resized, v1alpha1.ServerBlock)
	}
	return ""
}

// remedies are what a person can do about a server that Nova does not move as it is.
var remedies = map[string]string{
	"suspended":   "is suspended, and Nova moves no such server: openstack server resume %s",
	"error":       "is in the state error: openstack server set --state active %s, once it is known to run, or delete it",
	"resized":     "waits for its resize to be confirmed: openstack server resize confirm %s, or revert",
	"rescued":     "is rescued, and Nova moves no such server: openstack server unrescue %s",
	"shelved":     "is shelved, with its disk still here: openstack server shelve --offload %s",
	"soft-delete": "is deleted, and can be brought back until Nova reclaims it: wait for that, or openstack server delete --force %s",
	"building":    "is being built: wait until it is; if that does not end, openstack server delete %s",
}

// keeps says why a server keeps its host, and what a person can do about it.
func keeps(s *Server, mode v1alpha1.ServerMode) string {
	if remedy := remedies[s.State]; remedy != "" {
		return fmt.Sprintf(remedy, text.ShellWord(s.ID))
	}
	if mode == v1alpha1.ServerBlock {
		return fmt.Sprintf("is %s, and servers.%s of the policy is Block: move it by hand, or let the policy move such servers", s.State, s.State)
	}
	return fmt.Sprintf("is %s, and Nova moves no such server: openstack server show %s", text.Name(s.State), text.ShellWord(s.ID))
}
