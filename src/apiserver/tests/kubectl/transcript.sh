# What people do with kubectl. Scripts stand apart by an empty line and are played to both servers in order; what a script
# prints is compared, its exit code too.

kubectl create namespace t
kubectl get namespace t
kubectl config set-context --current --namespace t >/dev/null

kubectl version | grep Server

kubectl auth whoami -o jsonpath='{.kind}'

kubectl auth can-i create pods

kubectl create serviceaccount robot
kubectl create token robot -o jsonpath='{.kind} {.metadata.name} {.spec}'
kubectl create token robot --duration 1h --audience vault -o jsonpath='{.spec}'
kubectl create token robot --duration 1m
kubectl create token nobody
kubectl create token robot | tr -cd . | wc -c

kubectl --token "$(kubectl create token robot)" auth whoami -o jsonpath='{.status.userInfo.username} {.status.userInfo.groups}'
kubectl create secret generic key
bound() { kubectl create token robot --bound-object-kind Secret --bound-object-name key; }
kubectl --token "$(bound)" auth whoami -o jsonpath='{.status.userInfo.username}'
# The real server remembers for ten seconds whom it let in.
token=$(bound)
kubectl delete secret key
kubectl --token "$token" auth whoami

kubectl api-resources --api-group=apps

kubectl api-resources --api-group=policy -o wide

kubectl api-versions | grep -E 'apps|policy|batch|^v1'

kubectl explain pod.spec.nodeName

# differs: The values that a text may have are not told in schemas.
kubectl explain deployment.spec.strategy --recursive

kubectl explain nothing

kubectl create configmap c --from-literal=a=b --from-literal=c=d
kubectl get configmap c -o yaml
kubectl get configmap c -o json
kubectl get configmap c -o name
kubectl get configmap c -o jsonpath='{.data.a}'
kubectl get configmap c -o custom-columns=NAME:.metadata.name,A:.data.a
kubectl get configmap c -o go-template='{{.data.c}}'
kubectl get configmap c -o wide
kubectl get configmap c --no-headers

kubectl create configmap c

kubectl get configmap none

kubectl describe configmap c

kubectl get nothings

kubectl label configmap c x=y
kubectl label configmap c x=z
kubectl label configmap c x=z --overwrite
kubectl get configmap c --show-labels
kubectl get configmap -l x=z
kubectl label configmap c x-
kubectl annotate configmap c note=hello
kubectl get configmap c -o jsonpath='{.metadata.annotations}'

kubectl patch configmap c --type merge -p '{"data":{"a":"1"}}'
kubectl patch configmap c --type json -p '[{"op":"add","path":"/data/e","value":"f"}]'
kubectl patch configmap c --type strategic -p '{"data":{"c":null}}'
kubectl patch configmap c -p 'nope'
kubectl get configmap c -o jsonpath='{.data}'

KUBE_EDITOR="sed -i /e:.f/s/f\$/g/" kubectl edit configmap c
kubectl get configmap c -o jsonpath='{.data.e}'

KUBE_EDITOR=true kubectl edit configmap c

kubectl create secret generic s --from-literal=password=x
kubectl describe secret s
kubectl get secret s -o jsonpath='{.data.password}'

kubectl apply -f - <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "i:1", resources: {requests: {cpu: 100m}}}], terminationGracePeriodSeconds: 0}
Y

kubectl apply -f - <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {tier: front}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "i:1", resources: {requests: {cpu: 100m}}}], terminationGracePeriodSeconds: 0}
Y
kubectl wait deployment web --for=jsonpath='{.status.replicas}'=3 --timeout=60s
kubectl get deployment web
kubectl get deployment web -o wide

kubectl diff -f - <<'Y' | grep '^[+-] '
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {a: "1", e: h}
Y

kubectl get replicaset -l app=web
kubectl get pods -l app=web
kubectl get pods -l app=web -o wide

for pod in $(kubectl get pods -l app=web -o name); do
  kubectl patch $pod --subresource=status --type merge -p '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2020-01-01T00:00:00Z"}],"containerStatuses":[{"name":"c","image":"i","imageID":"x","ready":true,"restartCount":2,"state":{"running":{"startedAt":"2020-01-01T00:00:00Z"}}}]}}' >/dev/null
done
kubectl rollout status deployment web --timeout=60s
kubectl wait deployment web --for=condition=Available --timeout=60s
kubectl wait pod -l app=web --for=condition=Ready --timeout=60s
kubectl get pods -l app=web
kubectl get deployment web

kubectl rollout history deployment web

kubectl scale deployment web --replicas=1
kubectl wait deployment web --for=jsonpath='{.status.replicas}'=1 --timeout=60s
kubectl scale deployment web --replicas=2 --current-replicas=5
kubectl scale deployment none --replicas=2

kubectl set image deployment web c=i:2
kubectl get deployment web -o jsonpath='{.spec.template.spec.containers[0].image}'

kubectl describe deployment web | grep -vE 'Events|ScalingReplicaSet|Type|----|ReplicaSet|Progressing|Available|Replicas'

kubectl apply --server-side -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: ssa}
data: {a: "1"}
Y
kubectl apply --server-side --field-manager=other -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: ssa}
data: {a: "2"}
Y

kubectl apply --server-side --field-manager=other --force-conflicts -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: ssa}
data: {a: "2"}
Y
kubectl get configmap ssa -o yaml --show-managed-fields

kubectl apply --server-side --dry-run=server -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: dry}
Y
kubectl create configmap dry --dry-run=server -o name
kubectl get configmap dry

kubectl apply -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: strict}
nothing: 1
Y

kubectl apply -f - <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: bad}
spec: {containers: [{name: c}]}
Y

kubectl create -f - <<'Y'
apiVersion: v1
kind: Pod
metadata: {generateName: gen-}
spec: {containers: [{name: c, image: i}]}
Y

kubectl apply -f - <<'Y'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.harbor.test}
spec:
  group: harbor.test
  scope: Namespaced
  names: {plural: boats, kind: Boat, shortNames: [bt]}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Length, type: integer, jsonPath: .spec.length}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: What the boat is like.
            properties:
              length: {type: integer, minimum: 1, description: In meters.}
              flag: {type: string, default: none}
          status: {type: object, properties: {moored: {type: boolean}}}
Y
kubectl wait crd boats.harbor.test --for=condition=Established --timeout=60s

until kubectl get boats >/dev/null 2>&1; do sleep 0.2; done
kubectl apply -f - <<'Y'
apiVersion: harbor.test/v1
kind: Boat
metadata: {name: anna}
spec: {length: 12}
Y
kubectl get boats
kubectl get bt anna -o yaml
kubectl describe boat anna
kubectl patch boat anna --type merge -p '{"spec":{"length":0}}'
kubectl patch boat anna --subresource=status --type merge -p '{"status":{"moored":true}}'
kubectl get boat anna -o jsonpath='{.status.moored}'

until kubectl explain boat.spec >/dev/null 2>&1; do sleep 0.2; done
kubectl explain boat.spec

kubectl delete boat anna
kubectl delete boat anna
kubectl delete boat anna --ignore-not-found

kubectl delete crd boats.harbor.test

kubectl create -f - <<'Y'
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {disk: ssd}}
Y
kubectl cordon n1
kubectl get node n1
kubectl uncordon n1
kubectl taint node n1 dedicated=a:NoSchedule
kubectl get node n1 -o jsonpath='{.spec.taints}'
kubectl taint node n1 dedicated-
kubectl describe node n1 | head -12

kubectl create -f - <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: on-node}
spec: {nodeName: n1, terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}
Y
kubectl drain n1 --timeout=60s
kubectl drain n1 --force --timeout=60s
kubectl get pod on-node
kubectl get node n1

kubectl describe pod -l app=web | head -8

kubectl create job job --image=i
kubectl wait job job --for=jsonpath='{.status.active}'=1 --timeout=60s
kubectl get job job
kubectl get pods -l job-name=job

kubectl delete job job --cascade=orphan
kubectl get pods -l job-name=job
kubectl delete pods -l job-name=job --now

kubectl create -f - <<'Y'
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: each}
spec:
  selector: {matchLabels: {app: each}}
  template: {metadata: {labels: {app: each}}, spec: {containers: [{name: c, image: i}], terminationGracePeriodSeconds: 0}}
Y
kubectl wait daemonset each --for=jsonpath='{.status.desiredNumberScheduled}'=1 --timeout=60s
kubectl get daemonset each
kubectl get pods -l app=each
kubectl delete daemonset each --cascade=foreground

kubectl create -f - <<'Y'
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: i}], terminationGracePeriodSeconds: 0}}
Y
kubectl wait statefulset db --for=jsonpath='{.status.replicas}'=1 --timeout=60s
kubectl get statefulset db
kubectl get pods -l app=db
kubectl delete statefulset db

kubectl create -f - <<'Y'
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: hist, annotations: {kubernetes.io/change-cause: first}}
spec:
  replicas: 1
  serviceName: hist
  selector: {matchLabels: {app: hist}}
  template: {metadata: {labels: {app: hist}}, spec: {containers: [{name: c, image: "i:1"}], terminationGracePeriodSeconds: 0}}
Y
kubectl wait statefulset hist --for=jsonpath='{.status.updatedReplicas}'=1 --timeout=60s
kubectl set image statefulset hist c=i:2
kubectl wait statefulset hist --for=jsonpath='{.status.observedGeneration}'=2 --timeout=60s
until [ "$(kubectl get controllerrevisions -l app=hist -o name | wc -l)" = 2 ]; do sleep 0.2; done
kubectl get controllerrevisions -l app=hist
kubectl rollout history statefulset hist
kubectl rollout history statefulset hist --revision=2

kubectl rollout undo statefulset hist
kubectl wait statefulset hist --for=jsonpath='{.status.observedGeneration}'=3 --timeout=60s
until kubectl get controllerrevisions -l app=hist | grep -q ' 3 '; do sleep 0.2; done
kubectl rollout history statefulset hist
kubectl get controllerrevisions -l app=hist --sort-by=.revision
kubectl get statefulset hist -o jsonpath='{.spec.template.spec.containers[0].image}'
kubectl rollout undo statefulset hist --to-revision=7
kubectl delete statefulset hist
kubectl wait controllerrevision -l app=hist --for=delete --timeout=60s

kubectl create -f - <<'Y'
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: every}
spec:
  selector: {matchLabels: {app: every}}
  template: {metadata: {labels: {app: every}}, spec: {containers: [{name: c, image: "i:1"}], terminationGracePeriodSeconds: 0}}
Y
kubectl wait daemonset every --for=jsonpath='{.status.observedGeneration}'=1 --timeout=60s
kubectl set image daemonset every c=i:2
kubectl wait daemonset every --for=jsonpath='{.status.observedGeneration}'=2 --timeout=60s
kubectl rollout history daemonset every
kubectl rollout undo daemonset every
kubectl wait daemonset every --for=jsonpath='{.status.observedGeneration}'=3 --timeout=60s
kubectl rollout history daemonset every
kubectl get controllerrevisions -l app=every -o jsonpath='{.items[*].data.spec.template.spec.containers[*].image}'
kubectl delete daemonset every

kubectl create -f - <<'Y'
apiVersion: v1
kind: ReplicationController
metadata: {name: rc}
spec:
  replicas: 2
  template: {metadata: {labels: {app: rc}}, spec: {containers: [{name: c, image: i}], terminationGracePeriodSeconds: 0}}
Y
kubectl wait rc rc --for=jsonpath='{.status.replicas}'=2 --timeout=60s
kubectl get rc rc -o wide
kubectl get pods -l app=rc --no-headers | wc -l
kubectl scale rc rc --replicas=1
kubectl wait rc rc --for=jsonpath='{.status.replicas}'=1 --timeout=60s
kubectl describe rc rc | grep -E 'Selector|Replicas|Pods Status'
kubectl delete rc rc

kubectl run lone --image=i --labels=app=taken --overrides='{"spec":{"terminationGracePeriodSeconds":0}}'
kubectl create -f - <<'Y'
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: taker}
spec:
  replicas: 1
  selector: {matchLabels: {app: taken}}
  template: {metadata: {labels: {app: taken}}, spec: {containers: [{name: c, image: i}], terminationGracePeriodSeconds: 0}}
Y
kubectl wait replicaset taker --for=jsonpath='{.status.replicas}'=1 --timeout=60s
kubectl get pods -l app=taken --no-headers | wc -l
kubectl get pod lone -o jsonpath='{.metadata.ownerReferences[0].kind} {.metadata.ownerReferences[0].controller} {.metadata.ownerReferences[0].blockOwnerDeletion}'
kubectl label pod lone app=free --overwrite
until [ -z "$(kubectl get pod lone -o jsonpath='{.metadata.ownerReferences}')" ]; do sleep 0.2; done
until [ "$(kubectl get pods -l app=taken -o name | wc -l)" = 1 ]; do sleep 0.2; done
kubectl delete replicaset taker
kubectl delete pod lone --now

kubectl create cronjob tick --image=i --schedule='*/5 * * * *'
kubectl create cronjob bad --image=i --schedule='*/5 * * *'
kubectl create cronjob bad --image=i --schedule='60 * * * *'
kubectl create cronjob bad --image=i --schedule='* * * * 8'
kubectl create cronjob bad --image=i --schedule='CRON_TZ=UTC * * * * *'
kubectl create cronjob named --image=i --schedule='0 0 1-7/2 JAN mon-FRI' --dry-run=server
kubectl get cronjob tick
kubectl create job now --from=cronjob/tick
kubectl get job now -o jsonpath='{.metadata.annotations} {.metadata.ownerReferences[0].kind}'
kubectl patch cronjob tick -p '{"spec":{"timeZone":"Europe/Berlin"}}'
kubectl patch cronjob tick -p '{"spec":{"timeZone":"Europe/Atlantis"}}'
kubectl patch cronjob tick -p '{"spec":{"suspend":true}}'
kubectl get cronjob tick
kubectl delete job now
kubectl delete cronjob tick

# One that is due at every minute is due when its start was missed.
kubectl create -f - <<'Y'
apiVersion: batch/v1
kind: CronJob
metadata: {name: often}
spec:
  schedule: "* * * * *"
  jobTemplate:
    metadata: {labels: {of: often}}
    spec:
      template:
        spec: {restartPolicy: Never, containers: [{name: c, image: i}], terminationGracePeriodSeconds: 0}
Y
until [ "$(kubectl get jobs -l of=often -o name | wc -l)" -ge 1 ]; do sleep 0.5; done
kubectl patch cronjob often -p '{"spec":{"suspend":true}}' >/dev/null
kubectl get jobs -l of=often -o jsonpath='{.items[0].metadata.annotations}' | sed 's/[0-9][0-9]:00Z/MM:00Z/'; echo
kubectl get cronjob often -o jsonpath='{.status.active[*].kind}'
kubectl delete cronjob often
kubectl wait job -l of=often --for=delete --timeout=60s

kubectl create -f - <<'Y'
apiVersion: v1
kind: Service
metadata: {name: ends, labels: {tier: back}}
spec: {selector: {app: ends}, ports: [{name: web, port: 80, targetPort: http}, {name: two, port: 81, targetPort: 9000}]}
---
apiVersion: v1
kind: Pod
metadata: {name: ends-1, labels: {app: ends}}
spec: {nodeName: n1, terminationGracePeriodSeconds: 0, containers: [{name: c, image: i, ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: ends-2, labels: {app: ends}}
spec: {nodeName: n1, terminationGracePeriodSeconds: 0, containers: [{name: c, image: i, ports: [{name: http, containerPort: 8080}]}]}
Y
kubectl label node n1 topology.kubernetes.io/zone=z1 >/dev/null
for n in 1 2; do
  kubectl patch pod ends-$n --subresource=status --type merge -p '{"status":{"phase":"Running","podIP":"192.0.2.'$n'","podIPs":[{"ip":"192.0.2.'$n'"}],"conditions":[{"type":"Ready","status":"'$([ $n = 1 ] && echo True || echo False)'","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}' >/dev/null
done
until kubectl get endpointslices -l kubernetes.io/service-name=ends -o jsonpath='{.items[*].endpoints[*].addresses[*]}' | grep -q '192.0.2.2'; do sleep 0.2; done
until kubectl get endpoints ends -o jsonpath='{.subsets[*].notReadyAddresses[*].ip}' 2>/dev/null | grep -q '192.0.2.2'; do sleep 0.2; done
kubectl get endpointslices -l kubernetes.io/service-name=ends -o jsonpath='{.items[*].metadata.labels}'
kubectl get endpointslices -l kubernetes.io/service-name=ends -o jsonpath='{range .items[*].endpoints[*]}{.addresses}{.conditions}{.nodeName}{.targetRef.kind}{.targetRef.name}{"\n"}{end}' | sort
kubectl get endpointslices -l kubernetes.io/service-name=ends -o jsonpath='{range .items[*].ports[*]}{.name} {.port} {.protocol}{"\n"}{end}' | sort
kubectl get endpoints ends -o jsonpath='{range .subsets[*].ports[*]}{.name} {.port} {.protocol}{"\n"}{end}' | sort
kubectl get endpoints ends -o jsonpath='{.subsets[*].addresses}{.subsets[*].notReadyAddresses}{.metadata.labels}'
kubectl create service clusterip one --tcp=80:8080 >/dev/null
kubectl set selector service one app=ends >/dev/null
until kubectl get endpoints one 2>/dev/null | grep -q 192; do sleep 0.2; done
until kubectl get endpointslices -l kubernetes.io/service-name=one 2>/dev/null | grep -q 192; do sleep 0.2; done
kubectl get endpoints one
kubectl get endpointslices -l kubernetes.io/service-name=one | sed 's/192.0.2.2,192.0.2.1/192.0.2.1,192.0.2.2/'
kubectl delete service one
kubectl describe service ends | grep -E 'Endpoints|TargetPort'
kubectl delete service ends
kubectl wait endpointslice -l kubernetes.io/service-name=ends --for=delete --timeout=60s
until ! kubectl get endpoints ends >/dev/null 2>&1; do sleep 0.2; done
kubectl delete pod ends-1 ends-2

kubectl create poddisruptionbudget b --selector=app=web --min-available=1
kubectl wait pdb b --for=jsonpath='{.status.observedGeneration}'=1 --timeout=60s
kubectl get pdb b
kubectl describe pdb b | head -7

kubectl create service clusterip svc --tcp=80:8080
kubectl get service svc
kubectl expose deployment web --port=80
kubectl get service web -o jsonpath='{.spec.selector}'

kubectl create quota few --hard=secrets=2,requests.cpu=1 --scopes=
kubectl wait quota few --for=jsonpath='{.status.hard.secrets}'=2 --timeout=60s
kubectl create secret generic second
kubectl wait quota few --for=jsonpath='{.status.used.secrets}'=2 --timeout=60s
kubectl create secret generic third
kubectl run greedy --image=i
kubectl run greedy --image=i --overrides='{"spec":{"containers":[{"name":"greedy","image":"i","resources":{"requests":{"cpu":"5"}}}]}}'
kubectl describe quota few
kubectl delete quota few

kubectl create namespace q1
kubectl -n q1 create quota objects --hard=pods=2,configmaps=2,count/deployments.apps=1,services=3,services.nodeports=1,services.loadbalancers=0,persistentvolumeclaims=2,requests.storage=5Gi,slow.storageclass.storage.k8s.io/requests.storage=1Gi
kubectl -n q1 wait quota objects --for=jsonpath='{.status.hard.pods}'=2 --timeout=60s
for n in 1 2 3; do kubectl -n q1 create configmap c$n; done
kubectl -n q1 create deployment d1 --image=i --replicas=0
kubectl -n q1 create deployment d2 --image=i --replicas=0
kubectl -n q1 create service nodeport n1 --tcp=80
kubectl -n q1 create service nodeport n2 --tcp=80
kubectl -n q1 create service loadbalancer l1 --tcp=80
kubectl -n q1 create service clusterip c1 --tcp=80
kubectl -n q1 run p1 --image=i
kubectl -n q1 run p2 --image=i
kubectl -n q1 run p3 --image=i

for claim in 'a 3Gi plain' 'b 3Gi plain' 'c 2Gi slow' 'd 1Gi slow' 'e 1Gi plain'; do
  set -- $claim
  kubectl -n q1 create -f - <<Y
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1}
spec: {storageClassName: $3, accessModes: [ReadWriteOnce], resources: {requests: {storage: $2}}}
Y
done
kubectl -n q1 wait quota objects --for=jsonpath='{.status.used.persistentvolumeclaims}'=2 --timeout=60s
kubectl -n q1 describe quota objects

# What goes away gives back.
kubectl -n q1 delete configmap c1
kubectl -n q1 wait quota objects --for=jsonpath='{.status.used.configmaps}'=1 --timeout=60s
kubectl -n q1 create configmap c4
kubectl -n q1 delete quota objects

kubectl -n q1 create quota compute --hard=requests.cpu=1,limits.memory=1Gi,requests.example.com/gpu=2,requests.ephemeral-storage=1Gi
kubectl -n q1 wait quota compute --for=jsonpath='{.status.hard.limits\.memory}'=1Gi --timeout=60s
kubectl -n q1 run none --image=i
pod() {
  kubectl -n q1 run $1 --image=i --overrides='{"spec":{"containers":[{"name":"'$1'","image":"i","resources":'"$2"'}]}}'
}
pod half '{"requests":{"cpu":"600m"},"limits":{"memory":"512Mi"}}'
pod more '{"requests":{"cpu":"600m"},"limits":{"memory":"256Mi"}}'
pod both '{"requests":{"cpu":"600m"},"limits":{"memory":"768Mi"}}'
pod part '{"requests":{"cpu":"100m"}}'
pod disk '{"requests":{"cpu":"100m","ephemeral-storage":"2Gi"},"limits":{"memory":"1Mi"}}'
pod card '{"requests":{"cpu":"100m"},"limits":{"memory":"1Mi","example.com/gpu":"3"}}'
pod cards '{"requests":{"cpu":"100m"},"limits":{"memory":"1Mi","example.com/gpu":"2"}}'
kubectl -n q1 wait quota compute --for=jsonpath='{.status.used.requests\.cpu}'=700m --timeout=60s
kubectl -n q1 describe quota compute
kubectl -n q1 delete quota compute

kubectl -n q1 create quota best --hard=pods=1 --scopes=BestEffort
kubectl -n q1 create quota rest --hard=pods=1,requests.cpu=1 --scopes=NotBestEffort
kubectl -n q1 create quota ends --hard=pods=0 --scopes=Terminating
kubectl -n q1 create quota wrong --hard=requests.cpu=1 --scopes=BestEffort
kubectl -n q1 create quota wrong --hard=pods=1 --scopes=BestEffort,NotBestEffort
kubectl -n q1 create quota wrong --hard=pods=1 --scopes=Sometimes
kubectl -n q1 delete pods --all --now >/dev/null
for q in best rest ends; do
  until [ "$(kubectl -n q1 get quota $q -o jsonpath='{.status.used.pods}')" = 0 ]; do sleep 0.2; done
done
kubectl -n q1 run b1 --image=i
kubectl -n q1 run b2 --image=i
kubectl -n q1 run r1 --image=i --overrides='{"spec":{"containers":[{"name":"r1","image":"i","resources":{"requests":{"cpu":"100m"}}}]}}'
kubectl -n q1 run r2 --image=i --overrides='{"spec":{"containers":[{"name":"r2","image":"i","resources":{"requests":{"cpu":"100m"}}}]}}'
kubectl -n q1 delete quota best rest
kubectl -n q1 run e1 --image=i --overrides='{"spec":{"activeDeadlineSeconds":60}}'
kubectl -n q1 delete quota ends
kubectl -n q1 delete pods --all --now >/dev/null

kubectl create priorityclass gold --value=10 >/dev/null
kubectl -n q1 create -f - <<'Y'
apiVersion: v1
kind: ResourceQuota
metadata: {name: classy}
spec:
  hard: {pods: "1"}
  scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [gold]}]}
Y
kubectl -n q1 wait quota classy --for=jsonpath='{.status.hard.pods}'=1 --timeout=60s
gold() { kubectl -n q1 run $1 --image=i --overrides='{"spec":{"priorityClassName":"gold"}}'; }
gold g1
gold g2
kubectl -n q1 run plain --image=i
kubectl -n q1 get quota classy -o jsonpath='{.spec.scopeSelector}'
kubectl delete namespace q1 --wait=false
kubectl delete priorityclass gold

kubectl create quota q --hard=pods=50,configmaps=20
kubectl create priorityclass vip --value=100
kubectl get priorityclass vip

kubectl create role r --verb=get --resource=pods
kubectl create rolebinding rb --role=r --user=u
kubectl describe rolebinding rb

kubectl create -f - <<'Y'
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec: {user: kubernetes-admin, groups: ["system:masters"], resourceAttributes: {verb: get, resource: pods}}
Y

kubectl create -f - <<'Y'
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec: {user: kubernetes-admin, groups: ["system:masters"], resourceAttributes: {verb: get, resource: pods}, unknown: 1}
Y

kubectl create -f - <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: unbound}
spec: {schedulerName: none, containers: [{name: c, image: i}]}
Y
kubectl create -f - <<'Y'
apiVersion: v1
kind: Binding
metadata: {name: unbound}
target: {apiVersion: v1, kind: Node, name: nowhere}
Y
kubectl get pod unbound -o jsonpath='{.spec.nodeName}'
kubectl delete pod unbound --grace-period=0 --force

kubectl apply -f - <<'Y'
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleList
items:
- apiVersion: rbac.authorization.k8s.io/v1
  kind: Role
  metadata: {name: one}
  rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
- apiVersion: rbac.authorization.k8s.io/v1
  kind: Role
  metadata: {name: two}
  rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
Y
kubectl delete role one two

kubectl apply -f - <<'Y'
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.example.com}
spec:
  group: metrics.example.com
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: adapter, namespace: t}
Y
kubectl delete apiservice v1beta1.metrics.example.com

kubectl autoscale deployment none --max=3 --cpu=50%
kubectl apply -f - <<'Y'
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: old}
spec: {maxReplicas: 3, targetCPUUtilizationPercentage: 50, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: none}}
Y
kubectl get hpa old -o jsonpath='{.spec.metrics[0].resource.target.averageUtilization}'
kubectl delete hpa old

kubectl get --raw /healthz

kubectl get --raw /api/v1/namespaces/t/configmaps/none

timeout 3 kubectl get configmap c --watch
echo $?

kubectl get events -A -o name | wc -l >/dev/null; echo done

kubectl get all -l none=such

kubectl autoscale deployment web --min=2 --max=5 --cpu-percent=80
kubectl get hpa web -o jsonpath='{.spec.minReplicas} {.spec.maxReplicas}'
kubectl create ingress shop --rule='shop.example.com/*=web:80' --class=nginx
kubectl get ingress
kubectl delete hpa web
kubectl describe deployment web | grep -q 'deployment-controller  Scaled up'; echo $?

kubectl replace -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {z: "26"}
Y
kubectl replace -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: absent}
Y

kubectl delete configmap c ssa

kubectl delete deployment web --cascade=background
kubectl wait pod -l app=web --for=delete --timeout=60s

kubectl delete namespace t --timeout=60s
kubectl get namespace t
