package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/nodes"
	"usher.sh/usher/lab/throwaway"
)

const (
	memberRole, members = "member", 900
	routerRole, routers = "router", 100
	freeName, free      = "free", 100 // pods of a namespace without a policy

	governedNamespace = "governed"
	freeNamespace     = "free"
	policyName        = "db"

	firstNodes = 20
	roleLabel  = "bench.usher.sh/role"
	grace      = 2 // seconds
)

// stage is a lab with managers and a policy over a thousand pods.
type stage struct {
	lab      *throwaway.Lab
	managers *throwaway.Managers
	database *database
	client   client.Client
	policies rest.Interface
}

// build makes the stage and returns when the policy is at work.
func build(ctx context.Context, lab *throwaway.Lab, usher string) (*stage, error) {
	st := &stage{lab: lab}
	err := lab.Nodes.Create(ctx, lab.Client, nodes.Objects("node", firstNodes, nodes.Zones(3)...))
	if err != nil {
		return nil, err
	}
	if st.managers, err = throwaway.StartManagers(ctx, lab, usher); err != nil {
		return nil, err
	}
	if err := st.connect(); err != nil {
		return nil, err
	}
	names := make([]string, members)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", memberRole, i)
	}
	if st.database, err = newDatabase(names); err != nil {
		return nil, err
	}
	for _, namespace := range []string{governedNamespace, freeNamespace} {
		if err := st.addNamespace(ctx, namespace); err != nil {
			return nil, err
		}
	}
	if err := st.addPolicy(ctx); err != nil {
		return nil, err
	}
	fmt.Println("starting the pods ...")
	return st, st.addPods(ctx)
}

func (st *stage) connect() error {
	var err error
	st.client, st.policies, err = st.lab.UsherClients()
	return err
}

func (st *stage) close() {
	st.managers.Close()
	st.database.server.Close()
}

func (st *stage) addNamespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := st.lab.Client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace: %w", err)
	}
	return nil
}

func (st *stage) addPolicy(ctx context.Context) error {
	policy := &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: governedNamespace, Name: policyName},
		Spec:       v1alpha1.EvictionPolicySpec{System: st.database.system(), Roles: roles()},
	}
	for _, role := range []string{memberRole, routerRole} {
		selector := metav1.LabelSelector{MatchLabels: map[string]string{roleLabel: role}}
		policy.Spec.Members = append(policy.Spec.Members, v1alpha1.MemberSelector{Role: role, Selector: selector, Controllers: []string{"kwok"}})
	}
	if err := st.client.Create(ctx, policy); err != nil {
		return fmt.Errorf("creating the policy: %w", err)
	}
	return nil
}

func (st *stage) addPods(ctx context.Context) error {
	for _, set := range []struct {
		namespace, name string
		size            int
	}{
		{governedNamespace, memberRole, members}, {governedNamespace, routerRole, routers}, {freeNamespace, freeName, free},
	} {
		_, err := st.lab.Client.AppsV1().StatefulSets(set.namespace).Create(ctx, statefulSet(set.name, set.size), metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating a StatefulSet: %w", err)
		}
	}
	sets := await.Source[*appsv1.StatefulSet]{Client: st.lab.Client.AppsV1().RESTClient(), Resource: "statefulsets"}
	err := await.Until(ctx, sets, func(all []*appsv1.StatefulSet) bool {
		ready := int32(0)
		for _, set := range all {
			ready += set.Status.ReadyReplicas
		}
		return ready == members+routers+free
	})
	if err != nil {
		return fmt.Errorf("waiting until the pods are ready: %w", err)
	}
	return st.awaitPolicy(ctx, func(p *v1alpha1.EvictionPolicy) bool {
		return p.Status.MemberCount == members+routers && meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady)
	})
}

func (st *stage) awaitPolicy(ctx context.Context, done func(*v1alpha1.EvictionPolicy) bool) error {
	source := await.Source[*v1alpha1.EvictionPolicy]{Client: st.policies, Resource: "evictionpolicies", Namespace: governedNamespace}
	err := await.Until(ctx, source, func(all []*v1alpha1.EvictionPolicy) bool { return len(all) == 1 && done(all[0]) })
	if err != nil {
		return fmt.Errorf("waiting for the policy: %w", err)
	}
	return nil
}

func statefulSet(name string, size int) *appsv1.StatefulSet {
	labels := map[string]string{roleLabel: name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas:            new(int32(size)),
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector:            &metav1.LabelSelector{MatchLabels: labels},
			Template:            corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec()},
		},
	}
}

// podSpec is of the size that pods usually have.
func podSpec() corev1.PodSpec {
	container := func(name string, port int32) corev1.Container {
		c := corev1.Container{
			Name: name, Image: "registry.example.com/team/" + name + ":v1.2.3",
			Ports: []corev1.ContainerPort{{Name: name, ContainerPort: port}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("5m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
			}},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/" + name}, {Name: "scratch", MountPath: "/tmp"}},
		}
		for i := range 8 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: fmt.Sprintf("the value of setting %d", i)})
		}
		return c
	}
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(grace)),
		Containers:                    []corev1.Container{container("app", 8080), container("sidecar", 9090)},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
			{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}
}
