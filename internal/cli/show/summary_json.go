package show

import "usher.sh/usher/internal/drain"

type summaryJSON struct {
	Seconds     float64       `json:"seconds"`
	Nodes       []nodeEndJSON `json:"nodes"`
	Gone        int           `json:"gone"`
	Left        int           `json:"left"`
	Staying     int           `json:"staying"`
	Emptied     int           `json:"emptied"`
	NotReplaced []leftJSON    `json:"notReplaced"`
	Ended       []leftJSON    `json:"ended"`
	LeftPods    []leftJSON    `json:"leftPods"`
	Surged      []string      `json:"surged"`
	Blockers    []blockerJSON `json:"blockers"`
	GoOn        string        `json:"goOn,omitempty"`
	Stale       string        `json:"stale,omitempty"`
}

type nodeEndJSON struct {
	Name            string `json:"name"`
	State           string `json:"state"`
	Left            int    `json:"left"`
	Cordoned        bool   `json:"cordoned"`
	CordonedByUsher bool   `json:"cordonedByUsher"`
}

type leftJSON struct {
	podJSON

	Node        string `json:"node"`
	State       string `json:"state"`
	Note        string `json:"note,omitempty"`
	Replacement string `json:"replacement,omitempty"`
}

func newSummaryJSON(s Summary) summaryJSON {
	out := summaryJSON{
		Seconds: s.Took.Seconds(), Gone: s.Gone, Left: len(s.Left), Staying: s.Staying, Emptied: s.Emptied,
		Nodes: []nodeEndJSON{}, NotReplaced: leftList(s.NotReplaced), Ended: leftList(s.Ended), LeftPods: leftList(s.Left),
		Surged: append([]string{}, s.Surged...), Blockers: blockersJSON(s.Blockers), GoOn: s.GoOn, Stale: s.Stale,
	}
	for _, n := range s.Nodes {
		out.Nodes = append(out.Nodes, nodeEndJSON{
			Name: n.Name, State: string(n.State), Left: n.Left, Cordoned: n.Cordon != "", CordonedByUsher: n.Ours,
		})
	}
	return out
}

func leftList(pods []drain.PodStatus) []leftJSON {
	list := make([]leftJSON, 0, len(pods))
	for _, p := range pods {
		left := leftJSON{
			podJSON: podJSON{Namespace: p.Pod.Namespace, Name: p.Pod.Name, UID: string(p.Pod.UID)},
			Node:    p.Pod.Node, State: string(p.State), Note: p.Note,
		}
		if p.Replacement != nil {
			left.Replacement = p.Replacement.Name
		}
		list = append(list, left)
	}
	return list
}
