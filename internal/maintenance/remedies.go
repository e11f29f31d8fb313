package maintenance

import (
	"fmt"
	"strings"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// remedyOf returns the remedy of a blocker as one for a maintenance: its drains have no flags, so that fields are changed instead, and no person
// can run one again.
func remedyOf(b *drain.Blocker, maintenance string) string {
	again := "it is drained anew within 5 minutes"
	evict := fmt.Sprintf("usher evict %s -n %s", b.Pod.Name, b.Pod.Namespace)
	switch b.Reason {
	case drain.StartedAfterCordon:
		if strings.Contains(b.Remedy, drainAgain) { // the scheduler sees the cordon when it places what replaces the pod
			return evict
		}
	case drain.NodeNotCordoned: // a drain does not take a node back that has its record, cordoned or not
		return fmt.Sprintf("give the node back: usher maintain --delete %s; or take the record of its drain off, and %s: kubectl annotate node %s %s-",
			maintenance, again, b.Node, snapshot.DrainAnnotation)
	case drain.NodeReplaced:
		return "wait: the maintenance leaves the node to itself"
	case drain.DrainEnded:
		return evict
	default:
	}
	remedy := inOwnWords(b.Remedy, flagsOf(maintenance))
	remedy = strings.TrimSuffix(remedy, ", or leave the pod out (--pod-selector)")
	if before, found := strings.CutSuffix(remedy, ", and "+drainAgain); found {
		return before + "; " + again
	}
	return strings.TrimSuffix(remedy, " and "+drainAgain)
}

// drainAgain is how a drain advises to begin it anew.
const drainAgain = "run the drain again"

// flagsOf are commands in place of flags of a drain.
func flagsOf(maintenance string) map[string]string {
	set := func(field, value string) string {
		return fmt.Sprintf(`kubectl patch nodemaintenance %s --type=merge -p '{"spec":{"drain":{"%s":"%s"}}}'`, maintenance, field, value)
	}
	return map[string]string{
		"--force":                set("unmanagedPods", "Evict"),
		"--delete-emptydir-data": set("emptyDirPods", "Evict"),
		"--daemonsets=evict":     set("daemonSetPods", "Evict"),
		"--ignore-daemonsets":    set("daemonSetPods", "Ignore"),
		"--surge=never":          set("surge", "Never"),
		"--surge=auto":           set("surge", "Auto"),
		"--at-deadline=delete":   fmt.Sprintf(`kubectl patch nodemaintenance %s --type=merge -p '{"spec":{"atDeadline":"DeletePods"}}'`, maintenance),
	}
}

// inOwnWords replaces words of a sentence, whole ones only and none that is quoted: names and messages of tenants stand in it.
func inOwnWords(sentence string, replacements map[string]string) string {
	words, quoted := strings.Split(sentence, " "), false
	for i, word := range words {
		outside := !quoted && !strings.Contains(word, `"`)
		if strings.Count(strings.ReplaceAll(word, `\"`, ""), `"`)%2 == 1 {
			quoted = !quoted
		}
		flag := strings.TrimRight(word, ",;.")
		if with, is := replacements[flag]; is && outside {
			words[i] = with + word[len(flag):]
		}
	}
	return strings.Join(words, " ")
}
