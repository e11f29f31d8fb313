package memberset

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func podLevel(c corev1.PodSecurityContext) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.SecurityContext = &c }
}

func containerLevel(c corev1.SecurityContext) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.Containers[0].SecurityContext = &c }
}

// peerOwnership are the cases of 8/95: of which changes of a template files on volumes belong to others.
var peerOwnership = []struct {
	name   string
	before []func(*corev1.PodSpec)
	now    []func(*corev1.PodSpec)
	want   bool
}{
	{"nothing to nothing", nil, nil, false},
	{"nothing to empty", nil, []func(*corev1.PodSpec){podLevel(corev1.PodSecurityContext{}), containerLevel(corev1.SecurityContext{})}, false},
	{"empty to nothing", []func(*corev1.PodSpec){podLevel(corev1.PodSecurityContext{}), containerLevel(corev1.SecurityContext{})}, nil, false},
	{"fsGroup added", nil, []func(*corev1.PodSpec){podLevel(corev1.PodSecurityContext{FSGroup: new(int64(1))})}, true},
	{"fsGroup 0 added", nil, []func(*corev1.PodSpec){podLevel(corev1.PodSecurityContext{FSGroup: new(int64)})}, true},
	{"fsGroup removed", []func(*corev1.PodSpec){podLevel(corev1.PodSecurityContext{FSGroup: new(int64(1))})}, []func(*corev1.PodSpec){podLevel(corev1.PodSecurityContext{})}, true},
	{"fsGroup removed with all", []func(*corev1.PodSpec){podLevel(corev1.PodSecurityContext{FSGroup: new(int64(1))})}, nil, true},
	{"fsGroup changed", []func(*corev1.PodSpec){podLevel(corev1.PodSecurityContext{FSGroup: new(int64(1))})}, []func(*corev1.PodSpec){podLevel(corev1.PodSecurityContext{FSGroup: new(int64(2))})}, true},
	{
		"fsGroupChangePolicy changed",
		[]func(*corev1.PodSpec){podLevel(corev1.PodSecurityContext{FSGroupChangePolicy: new(corev1.FSGroupChangeAlways)})},
		[]func(*corev1.PodSpec){podLevel(corev1.PodSecurityContext{FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch)})},
		true,
	},
	{"fields that are not about files", nil, []func(*corev1.PodSpec){
		podLevel(corev1.PodSecurityContext{RunAsNonRoot: new(true)}), containerLevel(corev1.SecurityContext{Privileged: new(true)}),
	}, false},
	{"runAsUser added to the pod", nil, []func(*corev1.PodSpec){podLevel(corev1.PodSecurityContext{RunAsUser: new(int64(7))})}, true},
	{"runAsUser added to a container", nil, []func(*corev1.PodSpec){containerLevel(corev1.SecurityContext{RunAsUser: new(int64(7))})}, true},
	{
		"runAsUser removed from a container whose pod has it",
		[]func(*corev1.PodSpec){podLevel(corev1.PodSecurityContext{RunAsUser: new(int64(7))}), containerLevel(corev1.SecurityContext{RunAsUser: new(int64(7))})},
		[]func(*corev1.PodSpec){podLevel(corev1.PodSecurityContext{RunAsUser: new(int64(7))})},
		false,
	},
	{"runAsGroup moved to a container", []func(*corev1.PodSpec){podLevel(corev1.PodSecurityContext{RunAsGroup: new(int64(7))})}, []func(*corev1.PodSpec){containerLevel(corev1.SecurityContext{RunAsGroup: new(int64(7))})}, false},
	{"runAsGroup moved to the pod", []func(*corev1.PodSpec){containerLevel(corev1.SecurityContext{RunAsGroup: new(int64(7))})}, []func(*corev1.PodSpec){podLevel(corev1.PodSecurityContext{RunAsGroup: new(int64(7))})}, false},
	{
		"runAsGroup moved, and another fsGroup",
		[]func(*corev1.PodSpec){podLevel(corev1.PodSecurityContext{RunAsGroup: new(int64(7)), FSGroup: new(int64(1))})},
		[]func(*corev1.PodSpec){podLevel(corev1.PodSecurityContext{FSGroup: new(int64(2))}), containerLevel(corev1.SecurityContext{RunAsGroup: new(int64(7))})},
		true,
	},
	{"a container without a counterpart", nil, []func(*corev1.PodSpec){containerLevel(corev1.SecurityContext{RunAsUser: new(int64(7))}), func(s *corev1.PodSpec) { s.Containers[0].Name = "other" }}, false},
}

func TestPeerOwnership(t *testing.T) {
	for _, test := range peerOwnership {
		t.Run("8/95 "+test.name, func(t *testing.T) {
			made := func(changes []func(*corev1.PodSpec)) *corev1.PodSpec {
				spec := &corev1.PodSpec{Containers: []corev1.Container{{Name: "fdb"}}}
				for _, change := range changes {
					change(spec)
				}
				return spec
			}
			if got := ownsOtherwise(made(test.now), made(test.before)); got != test.want {
				t.Errorf("files belong to others: %t", got)
			}
		})
	}
}
