package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/notice"
)

func TestNodeSources(t *testing.T) {
	for _, test := range []struct {
		names []string
		want  []notice.Source
		wrong string
	}{
		{},
		{names: []string{"ec2", "logind"}, want: []notice.Source{notice.EC2, notice.Logind}},
		{names: []string{"ec2", "alertmanager"}, wrong: `--notices: "alertmanager" is no source of notices on nodes: it can be ec2, gce, azure, logind`},
		{names: []string{""}, wrong: `--notices: "" is no source of notices on nodes: it can be ec2, gce, azure, logind`},
		{names: []string{"ec2", "ec2"}, wrong: "--notices: ec2 is named twice"},
	} {
		got, err := nodeSources("--notices", test.names)
		wrong := ""
		if err != nil {
			wrong = err.Error()
		}
		if diff := cmp.Diff(test.want, got); diff != "" || wrong != test.wrong {
			t.Errorf("%q: %q, want %q; (-want +got):\n%s", test.names, wrong, test.wrong, diff)
		}
	}
}
