package recipes_test

import (
	"io"
	nethttp "net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
)

// OSDs 0 to 2 are on the node that is meant, and 3 on another.
func TestCephOSD(t *testing.T) {
	first, known := question{role: "ceph-osd", pod: "osd-0"}, question{role: "ceph-osd", pod: "osd-0"}
	unknown := question{role: "ceph-osd", pod: "osd-9"}
	checkVerdicts(t, "ceph-osd", map[string]verdict{
		"it is kept in first":                 {files: []string{"healthy"}, question: first, answer: eviction.Blocked, reasons: []string{"NooutNotSet"}, needs: "SetNoout"},
		"it is kept in":                       {files: []string{"healthy", "noout-0"}, question: first, answer: eviction.Allowed},
		"one of its node is kept in before":   {files: []string{"healthy", "noout-1"}, question: known, answer: eviction.Blocked, reasons: []string{"NooutNotSet"}, needs: "SetNoout"},
		"another node's is kept in":           {files: []string{"healthy", "noout-3"}, question: first, answer: eviction.Blocked, reasons: []string{"AnotherNodeLeaves", "NooutNotSet"}, says: "(noout): 3"},
		"a copy is missing":                   {files: []string{"healthy", "degraded"}, question: first, answer: eviction.Blocked, reasons: []string{"PGsNotClean", "NooutNotSet"}, says: "active+undersized+degraded"},
		"a copy is missing, and it is kept":   {files: []string{"healthy", "noout-0", "degraded"}, question: first, answer: eviction.Blocked, reasons: []string{"PGsNotClean"}},
		"copies differ":                       {files: []string{"healthy", "inconsistent"}, question: first, answer: eviction.Blocked, reasons: []string{"PGsNotClean", "NooutNotSet"}, says: "active+clean+inconsistent"},
		"no placement group is reported":      {files: []string{"healthy", "noout-0", "nothing"}, question: first, answer: eviction.Blocked, reasons: []string{"PGsNotClean"}},
		"a pool stops without a copy":         {files: []string{"healthy", "noout-0", "tight"}, question: first, answer: eviction.Blocked, reasons: []string{"PoolWithoutSlack"}, says: "scratch"},
		"it is none of the cluster":           {files: []string{"healthy"}, question: unknown, answer: eviction.Blocked, reasons: []string{"OSDUnknown", "NooutNotSet"}, says: "no OSD 9"},
		"the user may not see OSDs":           {files: []string{"healthy", "noout-0", "no-permission"}, question: first, answer: eviction.Blocked, reasons: []string{eviction.FactMissing}, says: "pg_info"},
		"the manager is silent":               {files: []string{"healthy", "silent"}, question: first, answer: eviction.Blocked, reasons: []string{eviction.NoEvidence}, says: "connection refused"},
		"none replaces it, as its disk stays": {files: []string{"healthy"}, question: question{role: "ceph-osd", pod: "osd-0", replace: true}, answer: eviction.Never, reasons: []string{eviction.NoSuccessor}},
	})
}

// The flag is that of one OSD alone, which is given back.
func TestCephOSDIsKeptIn(t *testing.T) {
	server := &cephFlags{}
	d := newDesk(t, "ceph-osd", server)
	claim, _ := d.judging.Claim(d.pod(t, "ceph-osd", "osd-2"))
	step := eviction.Preparation{Name: "SetNoout", Member: v1alpha1.MemberRef{Role: "ceph-osd", ID: claim.Member}}
	if _, err := d.system.Prepare(t.Context(), step); err != nil {
		t.Error(err)
	}
	if _, err := d.system.Undo(t.Context(), step); err != nil {
		t.Error(err)
	}
	want := []string{
		`PUT /api/osd/flags/individual application/vnd.ceph.api.v1.0+json {"flags": {"noout": true}, "ids": [2]}`,
		`PUT /api/osd/flags/individual application/vnd.ceph.api.v1.0+json {"flags": {"noout": false}, "ids": [2]}`,
	}
	if diff := cmp.Diff(want, server.sent); diff != "" {
		t.Error(diff)
	}
}

// cephFlags takes flags of OSDs.
type cephFlags struct{ sent []string }

func (c *cephFlags) RoundTrip(r *nethttp.Request) (*nethttp.Response, error) {
	body, err := io.ReadAll(r.Body)
	c.sent = append(c.sent, r.Method+" "+r.URL.Path+" "+r.Header.Get("Accept")+" "+string(body))
	return answer(nethttp.StatusOK, `{"added": [], "removed": [], "ids": []}`), err
}
