package eviction

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
)

// appending has an operator replace the stores of a policy.
func appending(change func(*v1alpha1.PatchProvider)) *v1alpha1.EvictionPolicySpec {
	spec := toySpec()
	provider := &v1alpha1.PatchProvider{
		Target: v1alpha1.PatchTarget{APIVersion: "apps.foundationdb.org/v1beta2", Kind: "FoundationDBCluster", Name: `{{pod.labels["role"]}}`},
		Do: v1alpha1.ObjectPatch{
			Merge:  `{"metadata": {"annotations": {"replace": {{member.id}}}}}`,
			Append: []v1alpha1.ListElement{{Path: "/spec/processGroupsToRemove", Value: "{{member.id}}"}},
		},
		Undo: &v1alpha1.ObjectPatch{Remove: []v1alpha1.ListElement{{Path: "/spec/processGroupsToRemove", Value: "{{member.id}}"}}},
	}
	change(provider)
	spec.Members[0].Provider = &v1alpha1.Provider{Patch: provider}
	return spec
}

func TestPatch(t *testing.T) {
	policy := compiled(t, appending(func(*v1alpha1.PatchProvider) {}))
	member := v1alpha1.MemberRef{Role: "store", ID: `m-"s0"`}
	got, err := policy.Patch(0, member, toyPod("s0", "store"))
	if err != nil {
		t.Fatal(err)
	}
	element := []v1alpha1.ListElement{{Path: "/spec/processGroupsToRemove", Value: `"m-\"s0\""`}}
	want := &v1alpha1.PatchProvider{
		Target: v1alpha1.PatchTarget{APIVersion: "apps.foundationdb.org/v1beta2", Kind: "FoundationDBCluster", Name: "store"},
		Do:     v1alpha1.ObjectPatch{Merge: `{"metadata": {"annotations": {"replace": "m-\"s0\""}}}`, Append: element},
		Undo:   &v1alpha1.ObjectPatch{Remove: element},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := policy.Patch(0, member, nil); err == nil || !strings.Contains(err.Error(), `provider.patch.target.name: {{pod.labels["role"]}}: `) {
		t.Errorf("without a pod: %v", err)
	}
	if got, err := policy.Patch(1, member, nil); got != nil || err != nil {
		t.Errorf("of an entry without: %+v, %v", got, err)
	}
}

func TestPatchProblems(t *testing.T) {
	for name, c := range map[string]struct {
		given func(*v1alpha1.PatchProvider)
		want  []Problem
	}{
		"a value within quotes": {
			func(p *v1alpha1.PatchProvider) {
				p.Do.Merge = `{"metadata": {"annotations": {"replace": "{{member.id}}"}}}`
			},
			[]Problem{{"spec.members[0].provider.patch.do.merge", "it is no JSON object: values are put in as JSON, with their quotes"}},
		},
		"a list": {
			func(p *v1alpha1.PatchProvider) { p.Do.Merge = `["a"]` },
			[]Problem{{"spec.members[0].provider.patch.do.merge", "it is no JSON object: values are put in as JSON, with their quotes"}},
		},
		"an element within quotes": {
			func(p *v1alpha1.PatchProvider) { p.Undo.Remove[0].Value = `"{{member.id}}"` },
			[]Problem{{"spec.members[0].provider.patch.undo.remove[0].value", "it is no JSON: values are put in as JSON, with their quotes"}},
		},
		"what the system says": {
			func(p *v1alpha1.PatchProvider) { p.Target.Name = "{{system.leader}}" },
			[]Problem{{
				"spec.members[0].provider.patch.target.name",
				"{{system.leader}} uses something that is not known yet when the request is made: it may use member and pod",
			}},
		},
		"no expression": {
			func(p *v1alpha1.PatchProvider) { p.Do.Append[0].Value = "{{" },
			[]Problem{{"spec.members[0].provider.patch.do.append[0].value", "{{ has no }}"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			policy, got := Compile(appending(c.given), toyRoles(), toyDeclared)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if _, err := policy.Patch(0, v1alpha1.MemberRef{Role: "store", ID: "m"}, toyPod("s0", "store")); err == nil {
				t.Error("a policy with problems patches something")
			}
		})
	}
}

// A pod is deleted for a successor only where any pod will do.
func TestDeletePodIsForAnyPod(t *testing.T) {
	spec := toySpec()
	for i := range spec.Members {
		spec.Members[i].Provider = &v1alpha1.Provider{DeletePod: &v1alpha1.DeletePodProvider{}}
	}
	_, got := Compile(spec, toyRoles(), toyDeclared)
	want := []Problem{
		{"spec.members[0].provider.deletePod", "role store does not have the successor AnyPod: deleting its pod alone makes no successor"},
		{"spec.members[2].provider.deletePod", "role single does not have the successor AnyPod: deleting its pod alone makes no successor"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
