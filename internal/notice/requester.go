package notice

import (
	"slices"
	"strings"
)

// domain ends the domain of the requesters of maintenances that notices make.
const domain = ".notice.usher.sh"

// Requester is who wants the maintenance that a notice makes.
func Requester(source Source, kind Kind) string { return string(source) + domain + "/" + string(kind) }

// Of returns the source and the kind of the notice that a requester stands for; false where it stands for none.
func Of(requester string) (Source, Kind, bool) {
	host, kind, _ := strings.Cut(requester, "/")
	source, is := strings.CutSuffix(host, domain)
	if !is || source == "" || strings.Contains(source, ".") || kind == "" {
		return "", "", false
	}
	return Source(source), Kind(kind), true
}

// leaving are the kinds by which the node goes, whatever is decided about it.
var leaving = []Kind{SpotInterruption, Reboot, Redeploy, Termination, Shutdown, ScaleDown}

// Leaves reports whether a requester stands for a notice by which the node goes: its drain has the time that is left, and cannot wait for other nodes.
func Leaves(requester string) bool {
	_, kind, is := Of(requester)
	return is && slices.Contains(leaving, kind)
}
