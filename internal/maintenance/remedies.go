package maintenance

import (
	"fmt"
	"strings"
)

// remedyOf returns a remedy that names flags of a drain as one that changes the fields of a maintenance: it cannot be created again with
// other flags.
func remedyOf(remedy, maintenance string) string {
	set := func(field, value string) string {
		return fmt.Sprintf(`kubectl patch nodemaintenance %s --type=merge -p '{"spec":{"drain":{"%s":"%s"}}}'`, maintenance, field, value)
	}
	return strings.NewReplacer(
		"--force", set("unmanagedPods", "Evict"),
		"--delete-emptydir-data", set("emptyDirPods", "Evict"),
		"--daemonsets=evict", set("daemonSetPods", "Evict"),
		"--ignore-daemonsets", set("daemonSetPods", "Ignore"),
		"--surge=never", set("surge", "Never"),
		"--surge=auto", set("surge", "Auto"),
	).Replace(remedy)
}
