package show

import (
	"fmt"

	"usher.sh/usher/api/v1alpha1"
)

// WarningLines say what the drain of a node costs, and what it will not have done in time.
func WarningLines(all []v1alpha1.MaintenanceWarning, margin string, width int) []string {
	var lines []string
	for i := range all {
		w := &all[i]
		lines = append(lines, indented(clean(w.Reason)+", "+Count(int(w.Count), "pod"), margin, width)...)
		said := ""
		for j := range w.Pods {
			p := &w.Pods[j]
			lines = append(lines, indented(clean(p.Name+": "+p.Message), margin+"  ", width)...)
			if p.Remedy != "" && p.Remedy != said {
				lines = append(lines, indented(clean(p.Remedy), margin+"    ", width)...)
			}
			said = p.Remedy
		}
		if more := int(w.Count) - len(w.Pods); more > 0 && len(w.Pods) > 0 {
			lines = append(lines, indented(fmt.Sprintf("and %s", Count(more, "more pod")), margin+"  ", width)...)
		}
	}
	return lines
}

// NodeWarnings is what a maintenance says of a node.
type NodeWarnings struct {
	Maintenance string
	Warnings    []v1alpha1.MaintenanceWarning
}

func (n *NodeWarnings) lines(width int) []string {
	return append(indented(clean("NodeMaintenance "+n.Maintenance+" drains it:"), "", width), WarningLines(n.Warnings, "  ", width)...)
}
