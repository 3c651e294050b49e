{{- /* SPDX-License-Identifier: Apache-2.0 */}}
{{/* The name of everything, with room for "-scaling" and the hash of a pod. */}}
{{- define "sidelight.name" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "sidelight.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sidelight.labels" -}}
{{ include "sidelight.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "sidelight.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}

{{/* The agents that are ready, as --discover has them. */}}
{{- define "sidelight.agents" -}}
kube:{{ .Release.Namespace }}/app.kubernetes.io/instance={{ .Release.Name }},app.kubernetes.io/component=agent:{{ .Values.rdma.port }}
{{- end }}

{{- define "sidelight.tokenSecret" -}}
{{ default (printf "%s-token" (include "sidelight.name" .)) .Values.collector.tokenSecret }}
{{- end }}

{{- define "sidelight.unprivileged" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Capabilities are effective for root alone, who has none but these. */}}
{{- define "sidelight.collectorUser" -}}
{{- ternary 0 (int64 .Values.user) .Values.collector.realtime }}
{{- end }}

{{/* Options that all collectors have; a list of YAML. */}}
{{- define "sidelight.collectorArgs" -}}
- --period={{ .Values.collector.period }}
- --history={{ .Values.collector.history }}
{{- if .Values.rdma.enabled }}
- --dev={{ .Values.rdma.device }}
{{- if .Values.rdma.secret }}
- --rdma-secret=/etc/sidelight/rdma/secret
{{- end }}
{{- range (default (list (include "sidelight.agents" .)) .Values.rdma.discover) }}
- --discover={{ . }}
{{- end }}
- --max-hosts={{ .Values.collector.maxHosts }}
{{- end }}
{{- end }}

{{- define "sidelight.hostNetwork" -}}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}

{{/* A pod of collectors: the context, and what replaces or adds to it. */}}
{{- define "sidelight.collectorPod" -}}
{{- with .Values.collector }}
{{- include "sidelight.placement" . }}
{{- end }}
{{- include "sidelight.pull" . }}
serviceAccountName: {{ include "sidelight.name" . }}-collector
{{- if not .Values.rdma.multusNetwork }}
{{ include "sidelight.hostNetwork" . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .Values.user }}
  runAsGroup: {{ .Values.user }}
  fsGroup: {{ .Values.user }}
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "sidelight.rdmaSecretMount" -}}
{{- if and .Values.rdma.enabled .Values.rdma.secret }}
- {name: rdma-secret, mountPath: /etc/sidelight/rdma, readOnly: true}
{{- end }}
{{- end }}

{{- define "sidelight.rdmaSecretVolume" -}}
{{- if and .Values.rdma.enabled .Values.rdma.secret }}
- name: rdma-secret
  secret: {secretName: {{ .Values.rdma.secret }}, defaultMode: 0440, items: [{key: secret, path: secret}]}
{{- end }}
{{- end }}

{{- define "sidelight.probes" -}}
{{- $port := index . 0 -}}{{- $scheme := index . 1 -}}
startupProbe:
  httpGet: {path: /-/healthy, port: {{ $port }}, scheme: {{ $scheme }}}
  failureThreshold: 30
  periodSeconds: 2
livenessProbe:
  httpGet: {path: /-/healthy, port: {{ $port }}, scheme: {{ $scheme }}}
  periodSeconds: 10
readinessProbe:
  httpGet: {path: /-/ready, port: {{ $port }}, scheme: {{ $scheme }}}
  periodSeconds: 5
{{- end }}

{{- define "sidelight.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- define "sidelight.pull" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "sidelight.tokenVolume" -}}
- name: token
  secret: {secretName: {{ include "sidelight.tokenSecret" . }}, defaultMode: 0440, items: [{key: token, path: token}]}
{{- end }}

{{/* The container of a collector that readers reach by a token: the context, and options of its own. Ends with its volumeMounts. */}}
{{- define "sidelight.collectorContainer" -}}
{{- $ := index . 0 -}}{{- $v := $.Values -}}
image: {{ include "sidelight.image" $ }}
imagePullPolicy: {{ $v.image.pullPolicy }}
args:
  - collect
  {{- range index . 1 }}
  - {{ . }}
  {{- end }}
  {{- include "sidelight.collectorArgs" $ | nindent 2 }}
  {{- if $v.collector.analyse }}
  - --analyse
  {{- end }}
  - --listen=0.0.0.0:{{ $v.collector.port }}
  - --reader-token-file=/etc/sidelight/token/token
  # Within the cluster the token crosses the network in the clear, unless it encrypts.
  - --insecure-listen
  {{- range $v.collector.args }}
  - {{ . | quote }}
  {{- end }}
env:
  # Its number ends its name; a pod on the node's network has the node's host name.
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
ports:
  - {name: metrics, containerPort: {{ $v.collector.port }}, protocol: TCP}
securityContext:
  runAsNonRoot: {{ not $v.collector.realtime }}
  runAsUser: {{ include "sidelight.collectorUser" $ }}
  runAsGroup: {{ $v.user }}
  {{- include "sidelight.unprivileged" $ | nindent 2 }}
  {{- if $v.collector.realtime }}
    add: [SYS_NICE]
  {{- end }}
{{ include "sidelight.probes" (list "metrics" "HTTP") }}
resources:
  {{- include "sidelight.collectorResources" $ | nindent 2 }}
volumeMounts:
  - {name: token, mountPath: /etc/sidelight/token, readOnly: true}
{{- end }}

{{- define "sidelight.collectorResources" -}}
{{- $resources := deepCopy .Values.collector.resources }}
{{- if .Values.rdma.enabled }}
{{- $resources = merge $resources (dict "limits" .Values.rdma.resources "requests" .Values.rdma.resources) }}
{{- end }}
{{- toYaml $resources }}
{{- end }}

{{- define "sidelight.collectorAnnotations" -}}
{{- $network := and .Values.rdma.enabled .Values.rdma.multusNetwork }}
{{- if or .Values.collector.annotations $network }}
annotations:
  {{- with .Values.collector.annotations }}{{- toYaml . | nindent 2 }}{{- end }}
  {{- if $network }}
  k8s.v1.cni.cncf.io/networks: {{ .Values.rdma.multusNetwork | quote }}
  {{- end }}
{{- end }}
{{- end }}
