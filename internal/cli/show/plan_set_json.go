package show

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/memberset"
)

type setPlanJSON struct {
	MemberSet  setKeyJSON       `json:"memberSet"`
	Outcome    string           `json:"outcome"`
	Groups     []groupJSON      `json:"groups"`
	Replaced   []departureJSON  `json:"replaced"`
	Made       []string         `json:"made"`
	Removed    []departureJSON  `json:"removed"`
	Recreated  []batchJSON      `json:"recreated"`
	Relabelled []string         `json:"relabelled"`
	Resources  []resourceJSON   `json:"resources"`
	Quotas     []quotaJSON      `json:"quotas"`
	Notes      []string         `json:"notes"`
	Unknown    []string         `json:"unknown"`
	Blockers   []setBlockerJSON `json:"blockers"`
}

type setKeyJSON struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Exists    bool   `json:"exists"`
}

type groupJSON struct {
	Name  string `json:"name"`
	Role  string `json:"role"`
	Today int    `json:"today"`
	After int    `json:"after"`
}

type departureJSON struct {
	Member string `json:"member"`
	Group  string `json:"group"`
	Why    string `json:"why"`
}

type batchJSON struct {
	Zones   []string `json:"zones"`
	Members []string `json:"members"`
}

type resourceJSON struct {
	Name  string `json:"name"`
	Today string `json:"today"`
	Most  string `json:"most"`
	After string `json:"after"`
}

type quotaJSON struct {
	Name     string `json:"name"`
	Resource string `json:"resource"`
	Hard     string `json:"hard"`
	Used     string `json:"used"`
	Most     string `json:"most"`
	Exceeded bool   `json:"exceeded"`
}

type setBlockerJSON struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	Dead    bool   `json:"dead"`
}

// JSON is the plan for programs, with everything in it.
func (p SetPlan) JSON() ([]byte, error) {
	out := setPlanJSON{
		MemberSet: setKeyJSON{p.Namespace, p.Name, p.IsThere}, Outcome: "complete", Groups: []groupJSON{}, Replaced: departuresJSON(p.Replaced), Removed: departuresJSON(p.Removed),
		Made: append([]string{}, p.Made...), Relabelled: append([]string{}, p.Relabelled...), Recreated: []batchJSON{}, Resources: p.resourcesJSON(), Quotas: []quotaJSON{},
		Notes: append([]string{}, p.Commands.InAll(p.Notes)...), Unknown: append([]string{}, p.Commands.InAll(p.Unknown)...), Blockers: []setBlockerJSON{},
	}
	if p.Blocked() {
		out.Outcome = "blocked"
	}
	for _, g := range p.Groups {
		out.Groups = append(out.Groups, groupJSON(g))
	}
	for _, b := range p.Recreated {
		out.Recreated = append(out.Recreated, batchJSON{append([]string{}, b.Zones...), b.Members})
	}
	for _, q := range p.Quotas {
		out.Quotas = append(out.Quotas, quotaJSON{q.Quota, string(q.Resource), q.Hard.String(), q.Used.String(), q.Most.String(), q.Exceeded})
	}
	for _, b := range p.blockers() {
		out.Blockers = append(out.Blockers, setBlockerJSON{string(b.Reason), b.Message, p.Commands.In(b.Remedy), b.Never})
	}
	return json.MarshalIndent(out, "", "  ")
}

func departuresJSON(all []memberset.Departure) []departureJSON {
	list := []departureJSON{}
	for _, d := range all {
		list = append(list, departureJSON(d))
	}
	return list
}

func (p SetPlan) resourcesJSON() []resourceJSON {
	var names []corev1.ResourceName
	for name := range p.Most {
		names = append(names, name)
	}
	slices.Sort(names)
	list := []resourceJSON{}
	for _, name := range names {
		today, most, after := p.Today[name], p.Most[name], p.After[name]
		list = append(list, resourceJSON{string(name), today.String(), most.String(), after.String()})
	}
	return list
}
